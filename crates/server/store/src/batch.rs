//! Answers that a thread of a store gives one after the other, so that what they cause can be done together.

use std::sync::Arc;

use loligo_lockstat::{Class, RwLock};

/// Held to take a reference; changed when somebody begins to listen.
static LISTENERS: Class = Class::new("store.batch_listeners");

/// Hears when a thread of a store begins and ends to give answers: to reads ([`Later`](crate::Later)), and of
/// changes that are safe ([`CommitListener`](crate::CommitListener)). Called in that thread, which holds no
/// lock; must not block. What follows from one answer may be left until the end, which is a matter of
/// microseconds. Threads give answers outside of batches as well.
pub trait BatchListener: Send + Sync {
    /// What follows in this thread, up to [`ended`](Self::ended), belongs together.
    fn begins(&self);

    /// The last answer was given.
    fn ended(&self);
}

/// Who hears of a store's batches: a part of a store that gives answers together.
pub struct BatchListeners(RwLock<Arc<[Arc<dyn BatchListener>]>>);

impl Default for BatchListeners {
    fn default() -> Self {
        Self(RwLock::new(&LISTENERS, Arc::default()))
    }
}

impl BatchListeners {
    /// One more who hears of batches that begin from now on.
    pub fn add(&self, listener: Arc<dyn BatchListener>) {
        let mut listeners = self.0.write();
        *listeners = listeners.iter().cloned().chain([listener]).collect();
    }

    /// Gives answers as one batch.
    pub fn together<R>(&self, give: impl FnOnce() -> R) -> R {
        let listeners = Arc::clone(&self.0.read());
        listeners.iter().for_each(|listener| listener.begins());
        let given = give();
        listeners.iter().for_each(|listener| listener.ended());
        given
    }
}

#[cfg(test)]
mod tests {
    use loligo_lockstat::Mutex;

    use super::*;

    static HEARD: Class = Class::new("test.heard");

    struct Notes(Mutex<Vec<&'static str>>);

    impl BatchListener for Notes {
        fn begins(&self) {
            self.0.lock().push("begins");
        }

        fn ended(&self) {
            self.0.lock().push("ended");
        }
    }

    #[test]
    fn who_listens_hears_of_each_batch_before_and_behind_its_answers() {
        let listeners = BatchListeners::default();
        listeners.together(|| ());
        let notes = Arc::new(Notes(Mutex::new(&HEARD, Vec::new())));
        listeners.add(notes.clone());
        let given = listeners.together(|| {
            notes.0.lock().push("an answer");
            7
        });
        assert_eq!(given, 7);
        assert_eq!(*notes.0.lock(), ["begins", "an answer", "ended"]);
    }
}

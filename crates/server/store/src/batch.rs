//! Batches of results that a thread of a store delivers one after the other, so that their consequences
//! can be handled together.

use std::sync::Arc;

use loligo_lockstat::{Class, RwLock};

/// Held for reading to clone the list; held for writing to register a listener.
static LISTENERS: Class = Class::new("store.batch_listeners");

/// Is notified when a thread of a store begins and ends a batch of results: of reads
/// ([`Later`](crate::Later)) and of committed transactions ([`CommitListener`](crate::CommitListener)).
/// The calls come in that thread, which holds no lock; they must not block. The consequences of one
/// result may be deferred until the end of the batch, which is microseconds away. Threads deliver
/// results outside of batches as well.
pub trait BatchListener: Send + Sync {
    /// A batch begins: it consists of the results that this thread delivers before [`ended`](Self::ended).
    fn begins(&self);

    /// The batch ended: its last result was delivered.
    fn ended(&self);
}

/// The listeners of a store's batches. The parts of a store that deliver results together use it.
pub struct BatchListeners(RwLock<Arc<[Arc<dyn BatchListener>]>>);

impl Default for BatchListeners {
    fn default() -> Self {
        Self(RwLock::new(&LISTENERS, Arc::default()))
    }
}

impl BatchListeners {
    /// Registers a listener for batches that begin from now on.
    pub fn add(&self, listener: Arc<dyn BatchListener>) {
        let mut listeners = self.0.write();
        *listeners = listeners.iter().cloned().chain([listener]).collect();
    }

    /// Runs `give`, which delivers results, as one batch.
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

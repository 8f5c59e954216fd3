//! Batches of results that a thread of a store delivers one after the other, so that their consequences
//! can be handled together.

use std::sync::{Arc, OnceLock};

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

/// A store's batches, and their listener. The parts of a store that deliver results together use it.
#[derive(Default)]
pub struct Batches(OnceLock<Arc<dyn BatchListener>>);

impl Batches {
    /// Registers the listener for batches that begin from now on. Only the first one counts.
    pub fn listen(&self, listener: Arc<dyn BatchListener>) {
        let _ = self.0.set(listener);
    }

    /// Runs `give`, which delivers results, as one batch.
    pub fn together<R>(&self, give: impl FnOnce() -> R) -> R {
        let listener = self.0.get();
        listener.iter().for_each(|listener| listener.begins());
        let given = give();
        listener.iter().for_each(|listener| listener.ended());
        given
    }
}

#[cfg(test)]
mod tests {
    use loligo_lockstat::{Class, Mutex};

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
        let listeners = Batches::default();
        listeners.together(|| ());
        let notes = Arc::new(Notes(Mutex::new(&HEARD, Vec::new())));
        listeners.listen(notes.clone());
        listeners.listen(Arc::new(Notes(Mutex::new(&HEARD, Vec::new()))));
        let given = listeners.together(|| {
            notes.0.lock().push("an answer");
            7
        });
        assert_eq!(given, 7);
        assert_eq!(*notes.0.lock(), ["begins", "an answer", "ended"]);
    }
}

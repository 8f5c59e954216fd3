//! Schedule-once queues.

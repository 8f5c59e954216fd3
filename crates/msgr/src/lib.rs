//! Sockets, out-queues and throttles.

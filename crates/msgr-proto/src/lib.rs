//! msgr2 sessions and frames, without I/O.

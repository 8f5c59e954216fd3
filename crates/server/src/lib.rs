//! Monitor and OSD in one process.

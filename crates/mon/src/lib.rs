//! Maps, authentication and commands.

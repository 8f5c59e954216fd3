//! monmap, osdmap and CRUSH.

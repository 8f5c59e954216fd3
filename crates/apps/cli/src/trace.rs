//! `--trace FILE`: records the timelines of a command's operations.

use std::fs::File;
use std::path::{Path, PathBuf};

use loligo_rados::{Builder, Trace};

use crate::failure::{Context, Failure};

/// The trace file of a command; empty without `--trace`.
pub(crate) struct Tracing(Option<(Trace, PathBuf)>);

impl Tracing {
    pub(crate) fn start(file: Option<&Path>) -> Result<Self, Failure> {
        let Some(file) = file else { return Ok(Self(None)) };
        let names = || format!("trace to {}", file.display());
        let trace = Trace::start(File::create(file).context(names)?).context(names)?;
        Ok(Self(Some((trace, file.to_owned()))))
    }

    pub(crate) fn of(&self, builder: Builder) -> Builder {
        match &self.0 {
            Some((trace, _)) => builder.trace(trace),
            None => builder,
        }
    }

    /// Closes the file, also after a failed command, and prints a summary.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Some((trace, file)) = self.0 else { return Ok(()) };
        let file = file.display();
        let traced = trace.finish().context(|| format!("trace to {file}"))?;
        let operations = if traced.written == 1 { "operation" } else { "operations" };
        eprintln!("trace: {} {operations} in {file}; look with: loligo trace {file} --svg", traced.written);
        if traced.dropped > 0 {
            eprintln!("trace: {} more were dropped: the file could not be written as fast", traced.dropped);
        }
        Ok(())
    }
}

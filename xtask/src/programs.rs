//! The workspace's test programs, as cargo builds them. Cargo runs one program after the other; a caller that
//! has the programs may run several at the same time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::Result;
use crate::process::{cargo, workspace};

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    path: PathBuf,
    /// The folder of its package.
    folder: PathBuf,
    /// The name of the test target.
    pub(crate) target: String,
    /// The package's name and the program's source, for people.
    pub(crate) name: String,
}

/// What is read of cargo's messages.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Program {
    /// Builds all test programs, and the programs that they start.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let mut build = cargo();
        build.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
        let output = build.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err("the tests do not build".into());
        }
        let text = String::from_utf8(output.stdout)?;
        Ok(text.lines().filter_map(Self::of).collect())
    }

    /// Returns the program that a message of cargo announces.
    fn of(message: &str) -> Option<Self> {
        let message: Message = serde_json::from_str(message).ok()?;
        let is_test = message.reason == "compiler-artifact" && message.profile?.test;
        let (path, target) = (message.executable.filter(|_| is_test)?, message.target?);
        let folder = message.manifest_path?.parent()?.to_owned();
        let source = target.src_path.strip_prefix(&folder).unwrap_or(&target.src_path);
        let package = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = format!("{package}: {}", source.display());
        Some(Self { path, folder, target: target.name, name })
    }

    /// Returns a command that runs the program as cargo does.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Whether the source lies at this path below the workspace.
    pub(crate) fn is_at(&self, source: &str) -> bool {
        let (_, below) = self.name.split_once(": ").unwrap_or_default();
        self.folder.join(below) == workspace().join(Path::new(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_cargo_s_messages() {
        let message = |target: &str, is_test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/crates/apps/cli/Cargo.toml",
                "target":{{"kind":["{target}"],"name":"rbd","src_path":"/w/crates/apps/cli/tests/rbd/main.rs"}},
                "profile":{{"opt_level":"0","test":{is_test}}},"executable":"/w/target/debug/deps/rbd-1","fresh":true}}"#
            )
        };
        let program = Program::of(&message("test", true)).expect("a test program");
        assert_eq!(program.name, "cli: tests/rbd/main.rs");
        assert_eq!(
            (program.target.as_str(), program.folder.as_path()),
            ("rbd", Path::new("/w/crates/apps/cli"))
        );
        assert_eq!(Program::of(&message("bin", false)), None);
        assert_eq!(Program::of(r#"{"reason":"build-finished","success":true}"#), None);
    }
}

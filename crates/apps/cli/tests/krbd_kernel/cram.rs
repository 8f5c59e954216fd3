//! Tests in the form of cram: commands behind `  $ ` with what they print below them.

/// A test as a script, and what the script prints if the test passes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) script: String,
    pub(crate) expected: String,
}

/// Ends of lines that stand for more than one line. No test of the list has them.
const PATTERNS: [&str; 4] = [" (re)", " (glob)", " (esc)", " (no-eol)"];

impl Session {
    /// Reads a test. Each command prints its number and its status behind its output.
    pub(crate) fn of(test: &str) -> Self {
        let mut session = Self { script: String::new(), expected: String::new() };
        let (mut command, mut status) = (0, "0");
        for line in test.lines().filter_map(|line| line.strip_prefix("  ")) {
            if let Some(begins) = line.strip_prefix("$ ") {
                session.end(command, status);
                (command, status) = (command + 1, "0");
                session.say(begins);
            } else if let Some(goes_on) = line.strip_prefix('>') {
                session.say(goes_on.strip_prefix(' ').unwrap_or(goes_on));
            } else if let Some(number) = of_status(line) {
                status = number;
            } else {
                assert!(!PATTERNS.iter().any(|end| line.ends_with(end)), "not understood here: {line}");
                session.expected += line;
                session.expected.push('\n');
            }
        }
        session.end(command, status);
        session
    }

    fn say(&mut self, line: &str) {
        self.script += line;
        self.script.push('\n');
    }

    fn end(&mut self, command: u32, status: &str) {
        if command > 0 {
            self.say(&format!("echo \"command {command}: $?\""));
            self.expected += &format!("command {command}: {status}\n");
        }
    }
}

/// The number in `[1]`, the status of a command.
fn of_status(line: &str) -> Option<&str> {
    let number = line.strip_prefix('[')?.strip_suffix(']')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

#[test]
fn commands_and_their_outputs_are_told_apart() {
    let test =
        "About it:\n\n  $ twice() {\n  >   echo $1 $1\n  > }\n  $ twice a\n  a a\n\n  $ false\n  [1]\n";
    let session = Session::of(test);
    let (first, second) = ("echo \"command 1: $?\"\n", "echo \"command 2: $?\"\n");
    let script =
        format!("twice() {{\n  echo $1 $1\n}}\n{first}twice a\n{second}false\necho \"command 3: $?\"\n");
    assert_eq!(session.script, script);
    assert_eq!(session.expected, "command 1: 0\na a\ncommand 2: 0\ncommand 3: 1\n");
}

//! What a rule found: where, how bad, what.

use std::fmt;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Fails the check.
    Error,
    /// Is only shown.
    Warning,
}

/// One place that breaks a rule.
#[derive(Debug, PartialEq)]
pub struct Finding {
    /// From the root, with `/`.
    pub path: String,
    /// From 1.
    pub line: usize,
    /// How bad it is.
    pub severity: Severity,
    /// What was wanted and what is there.
    pub message: String,
}

impl Finding {
    /// A finding that fails the check.
    pub fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, severity: Severity::Error, message: message.into() }
    }

    /// A finding that is only shown.
    pub fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, line, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:{}: {severity}: {}", self.path, self.line, self.message)
    }
}

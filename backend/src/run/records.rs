//! What was measured, kept for the next process: a file of JSON lines for each machine and version of the compiler.  Knows
//! nothing of how it was measured.
//!
//! Lines are only ever added, each as a whole, so that any number of processes may share the file; a later one counts.
//! What is no such line says nothing.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use kiln_lowering::schedule::{Choices, Class, Way};
use serde_json::{Value as Json, json};

use super::warn::warn;

/// Folder of the files inside that of the cache.
const FOLDER: &str = "tuning";

/// One decision, and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) class: Class,
    pub(super) way: Way,
    /// Microseconds that the segment took with each way; none for one that failed.
    pub(super) micros: [(Way, Option<f64>); 2],
    /// Why a way was left out.
    pub(super) excluded: Option<String>,
}

/// The decisions of a machine.
pub(super) struct Records {
    choices: Choices,
    file: Option<PathBuf>,
}

impl Record {
    fn line(&self) -> String {
        let micros = self.micros.map(|(way, time)| (way.to_string(), time.map_or(Json::Null, |time| json!(time))));
        let mut line = json!({ "class": self.class.to_string(), "way": self.way.to_string() });
        line["micros"] = Json::Object(micros.into_iter().collect());
        if let Some(why) = &self.excluded {
            line["excluded"] = json!(why);
        }
        format!("{line}\n")
    }
}

/// The decision of a line.
fn decision(line: &str) -> Option<(Class, Way)> {
    let line: Json = serde_json::from_str(line).ok()?;
    let way = Way::ALL.into_iter().find(|way| line["way"] == way.to_string())?;
    Some((line["class"].as_str()?.parse().ok()?, way))
}

impl Records {
    /// Those in a folder of caches, of the machine and compiler that `key` stands for.
    pub(super) fn open(folder: Option<&Path>, key: &str) -> Records {
        let file = folder.map(|folder| folder.join(FOLDER).join(format!("{key}.jsonl")));
        let text = file.as_ref().and_then(|file| fs::read(file).ok()).unwrap_or_default();
        let choices = String::from_utf8_lossy(&text).lines().filter_map(decision).collect();
        Records { choices, file }
    }

    /// What was decided so far.
    pub(super) fn choices(&self) -> &Choices {
        &self.choices
    }

    /// Decides a class for this process.
    pub(super) fn assume(&mut self, class: Class, way: Way) {
        self.choices = self.choices.with(class, way);
    }

    /// Decides a class, from now on and for processes to come.
    pub(super) fn add(&mut self, record: &Record) {
        self.assume(record.class, record.way);
        let Some(file) = &self.file else { return };
        let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            OpenOptions::new().create(true).append(true).open(file)?.write_all(record.line().as_bytes())
        });
        if let Err(error) = written {
            warn(&format!("cannot keep what was measured in {}: {error}", file.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(rows: u8) -> Class {
        format!("product {rows} 10 12 0 in 7 8 of 0 0 2 2 tail 2 2 6 0 0").parse().expect("a class")
    }

    fn record(rows: u8, way: Way) -> Record {
        let micros = [(Way::Library, Some(12.5)), (Way::Blocks, None)];
        Record { class: class(rows), way, micros, excluded: Some("blocks: out of memory".into()) }
    }

    #[test]
    fn decisions_outlive_the_process_and_damage() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let mut records = Records::open(Some(folder.path()), "sm_90a");
        records.add(&record(13, Way::Library));
        records.add(&record(13, Way::Blocks));
        records.add(&record(14, Way::Library));
        let file = folder.path().join(FOLDER).join("sm_90a.jsonl");
        let text = fs::read_to_string(&file).expect("kept");
        assert!(text.lines().all(|line| serde_json::from_str::<Json>(line).is_ok()), "{text}");
        // A line that was cut off, one of something else, one that is no text.
        let mut spoilt = text.into_bytes();
        spoilt.extend_from_slice(b"{\"class\":\"product 13 10\n{\"way\":\"blocks\"}\n\xff\xfe\n");
        fs::write(&file, spoilt).expect("spoilt");
        let again = Records::open(Some(folder.path()), "sm_90a");
        let known = |rows| again.choices().get(&class(rows));
        assert_eq!([known(13), known(14), known(15)], [Some(Way::Blocks), Some(Way::Library), None]);
        // Another machine's are its own.
        assert_eq!(Records::open(Some(folder.path()), "sm_80").choices(), &Choices::NONE);
    }

    #[test]
    fn many_processes_share_a_file() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = folder.path();
                scope.spawn(move || {
                    let mut records = Records::open(Some(path), "shared");
                    (0..20).for_each(|i| records.add(&record(n * 20 + i, Way::Blocks)));
                });
            }
        });
        let all = Records::open(Some(folder.path()), "shared");
        assert!((0..160).all(|rows| all.choices().get(&class(rows)) == Some(Way::Blocks)));
    }
}

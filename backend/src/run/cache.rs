//! Compiled kernels on disk, shared by any number of processes.  Knows keys and bytes, not what they mean.
//!
//! An entry is a file named after its key: a magic line, the key, a checksum of key and payload, the payload.  It is
//! written to a temporary file and renamed, so that readers see all of it or nothing.  An entry that does not check is
//! as good as none.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::warn::warn;

/// Identity of an entry.
pub(crate) type Key = [u8; 32];

const MAGIC: &[u8] = b"kiln object 1\n";

/// A folder of entries, or none.
pub(crate) struct Cache {
    folder: Option<PathBuf>,
    warned: AtomicBool,
}

/// Why there is no entry.
#[derive(Debug, PartialEq, Eq)]
enum Missing {
    Absent,
    Damaged,
    Unreadable(String),
}

/// The key of several parts; where one ends counts.
pub(crate) fn key(parts: &[&str]) -> Key {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

impl Cache {
    /// The cache in a folder, which is made when something is first kept.
    pub(crate) fn new(folder: Option<PathBuf>) -> Cache {
        Cache { folder, warned: AtomicBool::new(false) }
    }

    /// The payload kept under a key.
    pub(crate) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = path(self.folder.as_ref()?, key);
        match read(&path, key) {
            Ok(payload) => Some(payload),
            Err(Missing::Absent) => None,
            Err(Missing::Damaged) => {
                self.complain(&format!("the cache entry {} is damaged and will be made again", path.display()));
                None
            }
            Err(Missing::Unreadable(why)) => {
                self.complain(&format!("cannot read the cache entry {}: {why}", path.display()));
                None
            }
        }
    }

    /// Keeps a payload.  Failing to do so is no error: the next process compiles again.
    pub(crate) fn put(&self, key: &Key, payload: &[u8]) {
        let Some(folder) = &self.folder else { return };
        if let Err(error) = write(&path(folder, key), key, payload) {
            let name = crate::knobs::KILN_CACHE_DIR;
            self.complain(&format!(
                "cannot keep compiled kernels in {}: {error} ({name} names another folder, or off)",
                folder.display()
            ));
        }
    }

    fn complain(&self, message: &str) {
        if !self.warned.swap(true, Relaxed) {
            warn(message);
        }
    }
}

/// A key in names of files.
pub(crate) fn name(key: &Key) -> String {
    key.iter().map(|b| format!("{b:02x}")).collect()
}

fn path(folder: &Path, key: &Key) -> PathBuf {
    let name = name(key);
    folder.join(&name[..2]).join(&name[2..])
}

fn checksum(key: &Key, payload: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(key).update(payload).finalize().as_bytes()
}

fn read(path: &Path, key: &Key) -> Result<Vec<u8>, Missing> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(Missing::Absent);
        }
        Err(e) => return Err(Missing::Unreadable(e.to_string())),
    };
    let rest = bytes.strip_prefix(MAGIC).ok_or(Missing::Damaged)?;
    let (own, rest) = rest.split_at_checked(32).ok_or(Missing::Damaged)?;
    let (sum, payload) = rest.split_at_checked(32).ok_or(Missing::Damaged)?;
    if own == key && sum == checksum(key, payload) { Ok(payload.to_vec()) } else { Err(Missing::Damaged) }
}

fn write(path: &Path, key: &Key, payload: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    for part in [MAGIC, key, &checksum(key, payload), payload] {
        file.write_all(part)?;
    }
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let cache = Cache::new(Some(folder.path().join("kiln")));
        (folder, cache)
    }

    #[test]
    fn what_is_kept_is_found() {
        let (_folder, cache) = cache();
        let (a, b) = (key(&["a", "b"]), key(&["ab", ""]));
        assert_ne!(a, b);
        cache.put(&a, b"first");
        cache.put(&a, b"second");
        assert_eq!(cache.get(&a).as_deref(), Some(&b"second"[..]));
        assert_eq!(cache.get(&b), None);
        assert!(!cache.warned.load(Relaxed));
    }

    #[test]
    fn damaged_truncated_and_foreign_entries_are_made_again() {
        let (folder, cache) = cache();
        let k = key(&["x"]);
        let file = path(&folder.path().join("kiln"), &k);
        for spoil in [
            |bytes: &mut Vec<u8>| bytes.truncate(20),
            |bytes: &mut Vec<u8>| bytes.clear(),
            |bytes: &mut Vec<u8>| *bytes.last_mut().expect("not empty") ^= 1,
            |bytes: &mut Vec<u8>| bytes[MAGIC.len()] ^= 1,
            |bytes: &mut Vec<u8>| {
                *bytes = b"something else entirely, long enough to be an entry of some kind, or is it".to_vec()
            },
        ] {
            cache.put(&k, b"payload");
            let mut bytes = std::fs::read(&file).expect("kept");
            spoil(&mut bytes);
            std::fs::write(&file, bytes).expect("spoilt");
            assert_eq!(read(&file, &k), Err(Missing::Damaged));
            assert_eq!(cache.get(&k), None);
            cache.put(&k, b"payload");
            assert_eq!(cache.get(&k).as_deref(), Some(&b"payload"[..]));
        }
        // An entry under another's name.
        let other = key(&["y"]);
        cache.put(&other, b"other");
        std::fs::copy(path(&folder.path().join("kiln"), &other), &file).expect("copied");
        assert_eq!(cache.get(&k), None);
    }

    #[test]
    fn a_folder_that_cannot_be_is_survived() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let file = folder.path().join("file");
        std::fs::write(&file, "in the way").expect("written");
        let cache = Cache::new(Some(file));
        let k = key(&["x"]);
        cache.put(&k, b"payload");
        assert_eq!(cache.get(&k), None);
        assert!(cache.warned.load(Relaxed));
        Cache::new(None).put(&k, b"payload");
    }

    #[test]
    fn many_writers_and_readers_share_a_folder() {
        let (folder, _) = cache();
        let k = key(&["shared"]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let cache = Cache::new(Some(folder.path().to_path_buf()));
                    for _ in 0..50 {
                        cache.put(&k, &[7; 10_000]);
                        assert_eq!(cache.get(&k), Some(vec![7; 10_000]));
                    }
                });
            }
        });
    }
}

//! What the daemon is told at its start: one JSON file.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::flights::ATOMIC_BYTES;
use crate::journal::Durability;
use crate::model::Parameters;

/// The version of this file's format that the daemon understands.
const SCHEMA: u32 = 1;

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One file, disk.img, for a loop device.
    Block,
    /// A directory, as a network file system shows it.
    Files,
}

/// How requests come from the kernel.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Over io_uring where that can be, else by /dev/fuse.
    #[default]
    Auto,
    IoUring,
    DevFuse,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub schema: u32,
    /// The profile's name, for the counters.
    pub profile: String,
    pub mode: Mode,
    /// Where control.sock and daemon.pid are put.
    pub directory: PathBuf,
    /// The FUSE mount point.
    pub mount: PathBuf,
    /// Block mode: the image file. Files mode: the directory that is shown.
    pub backing: PathBuf,
    pub durability: Durability,
    /// After this time an async volume has made a write durable by itself.
    #[serde(default)]
    pub async_window_s: f64,
    /// Whether a flush also syncs the backing: slower, and only of use when this machine itself loses power.
    #[serde(default)]
    pub sync_backing: bool,
    /// Files mode: how long the client believes attributes and names.
    #[serde(default)]
    pub attribute_ttl_s: f64,
    /// Files mode: every write goes to the server at once, as on an NFS mount with `sync`.
    #[serde(default)]
    pub client_sync: bool,
    #[serde(default = "four")]
    pub threads: usize,
    #[serde(default)]
    pub transport: Transport,
    #[serde(default = "tolerance")]
    pub late_tolerance_us: f64,
    /// Block mode, write_through: a power cut tears a write under way at the multiples of this; 0: it tears none.
    #[serde(default)]
    pub atomic_bytes: u64,
    pub model: Parameters,
}

fn four() -> usize {
    4
}

fn tolerance() -> f64 {
    300.0
}

impl Config {
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let config: Config = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        config.validate().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema {} is not {SCHEMA}, the one this daemon understands", self.schema));
        }
        for path in [&self.directory, &self.mount, &self.backing] {
            if !path.is_absolute() {
                return Err(format!("{} is not an absolute path", path.display()));
            }
        }
        if self.transport == Transport::IoUring {
            return Err("transport must be auto or dev_fuse".into()); // auto is io_uring where it can be
        }
        if !(1..=64).contains(&self.threads) {
            return Err("threads must be between 1 and 64".into());
        }
        for (name, value) in [
            ("async_window_s", self.async_window_s),
            ("attribute_ttl_s", self.attribute_ttl_s),
            ("late_tolerance_us", self.late_tolerance_us),
        ] {
            if !(0.0..=1e9).contains(&value) {
                return Err(format!("{name} must be a number >= 0"));
            }
        }
        let sane = self.atomic_bytes.is_power_of_two() && ATOMIC_BYTES.contains(&self.atomic_bytes);
        if self.atomic_bytes != 0 && !sane {
            return Err("atomic_bytes must be 0 or a power of two from 512 to 1 MiB".into());
        }
        if self.atomic_bytes != 0 && (self.mode != Mode::Block || self.durability != Durability::WriteThrough) {
            return Err("atomic_bytes is for a block device that is durable when it acknowledges".into());
        }
        self.model.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"{"schema": 1, "profile": "x", "mode": "block", "directory": "/d", "mount": "/m",
        "backing": "/b", "durability": "write_through", "model": {}}"#;

    fn parsed(text: &str) -> Result<(), String> {
        let config: Config = serde_json::from_str(text).map_err(|error| error.to_string())?;
        config.validate()
    }

    #[test]
    fn a_minimal_file_is_enough() {
        assert_eq!(parsed(MINIMAL), Ok(()));
    }

    #[test]
    fn unknown_keys_other_schemas_and_bad_limits_are_refused() {
        assert!(parsed(&MINIMAL.replace("\"profile\"", "\"profil\"")).is_err());
        assert!(parsed(&MINIMAL.replace("1,", "2,")).unwrap_err().contains("schema 2"));
        let with = |size: u32| MINIMAL.replace("\"model\"", &format!("\"atomic_bytes\": {size}, \"model\""));
        assert_eq!(parsed(&with(16384)), Ok(()));
        assert!(parsed(&with(5000)).unwrap_err().contains("power of two"));
        assert!(parsed(&with(4096).replace("write_through", "async")).unwrap_err().contains("acknowledges"));
        assert!(parsed(&with(4096).replace("\"block\"", "\"files\"")).unwrap_err().contains("acknowledges"));
        let model = r#""model": {"time_scale": 0}"#;
        assert!(parsed(&MINIMAL.replace(r#""model": {}"#, model)).unwrap_err().contains("time_scale"));
    }
}

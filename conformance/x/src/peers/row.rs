//! A workload with the times of Kiln and of each way in which a peer ran it.

use serde_json::Value;

use crate::bench::difference;

/// One workload.
pub struct Row {
    pub name: String,
    pub bytes: f64,
    pub flops: f64,
    /// Kiln's measurements, or what went wrong.
    pub kiln: Result<Value, String>,
    /// The peers' measurements, by what they are called; without those that failed.
    pub peers: Vec<(String, Value)>,
    /// What is wrong with Kiln's result, held against the first peer's.
    pub difference: Option<String>,
}

impl Row {
    /// From our object and the peers' of the same name.
    pub fn new(own: &Value, peer: Option<&Value>) -> Row {
        let number = |key: &str| own[key].as_f64().unwrap_or(0.0);
        let kiln = match own["by"]["kiln"]["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(own["by"]["kiln"].clone()),
        };
        let by = peer.and_then(|peer| peer["by"].as_object()).into_iter().flatten();
        let peers: Vec<(String, Value)> = by
            .filter(|(_, measured)| measured["median_ms"].is_number())
            .map(|(name, measured)| (name.clone(), measured.clone()))
            .collect();
        let reference = peers.iter().find(|(name, _)| name == "eager").or(peers.first());
        let difference = match (&kiln, reference) {
            (Ok(kiln), Some((_, peer))) => difference(&kiln["digest"], &peer["digest"], number("tolerance")),
            _ => None,
        };
        let name = own["workload"].as_str().unwrap_or("?").to_owned();
        Row { name, bytes: number("bytes"), flops: number("flops"), kiln, peers, difference }
    }

    /// Kiln's milliseconds.
    pub fn milliseconds(&self) -> Option<f64> {
        self.of_kiln("median_ms")
    }

    /// A number that was measured of Kiln.
    pub fn of_kiln(&self, key: &str) -> Option<f64> {
        self.kiln.as_ref().ok()?[key].as_f64()
    }

    /// A number that was measured of a peer.
    pub fn of_peer(&self, name: &str, key: &str) -> Option<f64> {
        self.peers.iter().find(|(peer, _)| peer == name)?.1[key].as_f64()
    }

    /// How many times as fast as the fastest peer of the same precision, by the same clock.
    pub fn ratio(&self) -> Option<f64> {
        let equals = self.peers.iter().filter(|(name, _)| name != "tf32");
        let best = equals.filter_map(|(_, measured)| measured["median_ms"].as_f64()).fold(f64::NAN, f64::min);
        let ratio = best / self.milliseconds()?;
        ratio.is_finite().then_some(ratio)
    }
}

//! Sizes in bytes as people write and read them: `12GiB`, `512M`, `96.0 GiB`.

use std::fmt;

/// Shows a number of bytes with one decimal in the largest fitting unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // 1023.95 and more would print as 1024.0 of the smaller unit.
        while value >= 1023.95 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no size; write a number and a unit, such as 512MiB or 12GiB")]
pub struct SizeError(String);

/// Reads `4096`, `512K`, `512KiB`, `1.5 GiB`, `2GB`. `K`, `M`, `G`, `T` and the
/// forms with `iB` are powers of 1024, those with `B` alone powers of 1000.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let wrong = || SizeError(text.to_owned());
    let trimmed = text.trim();
    let digits = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(wrong);
    }
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = value * factor as f64;
    if bytes.is_finite() && bytes < u64::MAX as f64 {
        Ok(bytes as u64)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_one_decimal() {
        assert_eq!(Bytes(96 << 30).to_string(), "96.0 GiB");
        assert_eq!(Bytes(526 << 20).to_string(), "526.0 MiB");
        assert_eq!(Bytes((1 << 30) - 1).to_string(), "1.0 GiB");
        assert_eq!(Bytes(12).to_string(), "12 B");
    }

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse("12GiB"), Ok(12 << 30));
        assert_eq!(parse(" 1.5 g "), Ok(3 << 29));
        assert_eq!(parse("2GB"), Ok(2_000_000_000));
        assert_eq!(parse("4096"), Ok(4096));
        for wrong in ["", "GiB", "12 apples", "-1G", "99999999999T", "1.2.3M", "."] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

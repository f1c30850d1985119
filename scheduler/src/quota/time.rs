//! Times as people write them: `30m`, `12h`, `1d12h`.

/// Reads one as milliseconds.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no time; write numbers with units, such as 30m, 12h or 1d12h");
    let mut rest = text.trim();
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, from_unit) = rest.split_at(digits);
        let unit = from_unit.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, others) = from_unit.split_at(unit.unwrap_or(from_unit.len()));
        let factor: u64 = match unit {
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let part = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor));
        sum = part.and_then(|part| sum.checked_add(part)).ok_or_else(wrong)?;
        rest = others.trim_start();
    }
    if sum == 0 {
        return Err(wrong());
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn times_have_units() {
        let minutes = |text| parse(text).ok().map(|ms| ms / 60_000);
        let good = ["30m", "12h", "1d12h", " 2d 3m ", "120s"];
        assert_eq!(good.map(minutes), [30, 720, 2160, 2883, 2].map(Some));
        let most = format!("{}s", u64::MAX / 1000);
        assert!(parse(&most).is_ok());
        let bad = [
            "",
            "30",
            "m",
            "30 m",
            "30M",
            "1.5h",
            "-3m",
            "0m",
            "0",
            "h3",
            "3mh",
            "3m4",
            "30m!",
            "٣m",
            "1w",
            "18446744073709551616s",
            "18446744073709552s",
            "213503982335d1d",
        ];
        for text in bad {
            assert!(parse(text).is_err_and(|why| why.contains("is no time")), "{text}");
        }
    }
}

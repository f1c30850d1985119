//! Arithmetic over named whole numbers: what `//#Peak:` and `//#Record:` say, and what reports print.
//!
//! Sums, differences, products, quotients (rounded down), parentheses. All in 128 bits, so that nothing
//! wraps.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

/// Names and their values.
pub type Values = BTreeMap<String, i128>;

/// Evaluates `text` with `values`.
///
/// # Errors
///
/// When `text` is no formula, names an unknown value, divides by zero or leaves 128 bits.
pub fn evaluate(text: &str, values: &Values) -> Result<i128> {
    let mut parser = Parser { rest: text, values };
    let value = parser
        .sum()
        .with_context(|| format!("failed to evaluate '{text}'"))?;
    ensure!(
        parser.peek().is_none(),
        "failed to evaluate '{text}': '{}' is left over",
        parser.rest
    );
    Ok(value)
}

struct Parser<'a> {
    rest: &'a str,
    values: &'a Values,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn sum(&mut self) -> Result<i128> {
        let mut value = self.product()?;
        loop {
            let next = if self.take('+') {
                value.checked_add(self.product()?)
            } else if self.take('-') {
                value.checked_sub(self.product()?)
            } else {
                return Ok(value);
            };
            value = next.context("the sum leaves 128 bits")?;
        }
    }

    fn product(&mut self) -> Result<i128> {
        let mut value = self.atom()?;
        loop {
            let next = if self.take('*') {
                value.checked_mul(self.atom()?)
            } else if self.take('/') {
                let divisor = self.atom()?;
                ensure!(divisor != 0, "division by zero");
                value.checked_div(divisor)
            } else {
                return Ok(value);
            };
            value = next.context("the product leaves 128 bits")?;
        }
    }

    fn atom(&mut self) -> Result<i128> {
        if self.take('(') {
            let value = self.sum()?;
            ensure!(self.take(')'), "a parenthesis is not closed");
            return Ok(value);
        }
        let Some(first) = self.peek() else {
            bail!("a value is missing at the end")
        };
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        ensure!(!word.is_empty(), "unexpected '{first}'");
        self.rest = rest;
        if first.is_ascii_digit() {
            return Ok(word.parse()?);
        }
        if word == "max" && self.take('(') {
            let first = self.sum()?;
            ensure!(self.take(','), "max has two values");
            let second = self.sum()?;
            ensure!(self.take(')'), "a parenthesis is not closed");
            return Ok(first.max(second));
        }
        self.values
            .get(word)
            .copied()
            .with_context(|| format!("'{word}' has no value"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_and_names() {
        let values = Values::from([("n".to_owned(), 1000), ("m".to_owned(), 3)]);
        assert_eq!(evaluate("3 * (4 * n) + m", &values).unwrap(), 12_003);
        assert_eq!(evaluate("(n + 255) / 256", &values).unwrap(), 4);
        assert_eq!(evaluate("n - m - 1", &values).unwrap(), 996);
        assert_eq!(evaluate("2 * max(0, n + m) + max(m, 7)", &values).unwrap(), 2013);
    }

    #[test]
    fn errors_name_the_trouble() {
        let message = |text| format!("{:#}", evaluate(text, &Values::new()).unwrap_err());
        assert!(message("4 * n").contains("'n' has no value"));
        assert!(message("4 *").contains("missing at the end"));
        assert!(message("4 4").contains("left over"));
    }
}

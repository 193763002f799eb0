//! Floats as Python prints them.

/// `repr(value)` of a finite float.
///
/// Rust finds the same shortest digits; only the exponent's form and where it begins differ.
pub(crate) fn python_repr(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    if (-4..16).contains(&exponent) || value == 0.0 {
        let mut plain = value.to_string();
        if !plain.contains('.') {
            plain.push_str(".0");
        }
        return plain;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_python() {
        for (value, printed) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1e22, "1e+22"),
            (-1.2345e100, "-1.2345e+100"),
            (5e-324, "5e-324"),
            (123456.789, "123456.789"),
        ] {
            assert_eq!(python_repr(value), printed);
        }
    }
}

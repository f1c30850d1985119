//! What NVIDIA's `libnvidia-ml.so.1` exports, as `nm -D --defined-only` lists it of driver 580. The driver
//! front exports each of them.

/// Every name, sorted.
pub fn all() -> impl Iterator<Item = &'static str> {
    include_str!("../data/nvml.txt").lines()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_sorted_and_belong_to_nvml() {
        let names: Vec<&str> = super::all().collect();
        assert!(names.is_sorted_by(|one, next| one < next));
        assert!(names.iter().all(|name| name.starts_with("nvml")));
        assert!(names.contains(&"nvmlDeviceGetHandleByIndex_v2"));
    }
}

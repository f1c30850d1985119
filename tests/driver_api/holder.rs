//! A neighbour that holds memory and lets it go again and again, so that others wait.

use std::time::Duration;

use crate::driver::{OUT_OF_MEMORY, SUCCESS, driver};

/// Holds so many bytes for so many milliseconds, then lets others have them for as long, until it is killed.
///
/// # Panics
/// Where what it has written is not there any more, or the driver answers wrongly.
pub fn hold(bytes: u64, milliseconds: u64) {
    let driver = driver();
    let mut context = 0;
    let begun = [
        driver.cuInit(0),
        driver.cuDevicePrimaryCtxRetain(&mut context, 0),
        driver.cuCtxSetCurrent(context),
    ];
    assert_eq!(begun, [SUCCESS; 3]);
    for round in 0u64.. {
        let (mut address, mut seen, value) = (0, 0u8, round as u8);
        match driver.cuMemAlloc_v2(&mut address, bytes as usize) {
            SUCCESS => {}
            // It was refused where nobody could go on otherwise.
            OUT_OF_MEMORY => {
                std::thread::sleep(Duration::from_millis(milliseconds));
                continue;
            }
            code => panic!("cuMemAlloc of the holder: {code}"),
        }
        assert_eq!(driver.cuMemsetD8_v2(address, value, 4096), SUCCESS);
        std::thread::sleep(Duration::from_millis(milliseconds));
        assert_eq!(
            driver.cuMemcpyDtoH_v2((&raw mut seen).cast(), address + 4095, 1),
            SUCCESS
        );
        assert_eq!(seen, value, "what the holder has written");
        assert_eq!(driver.cuMemFree_v2(address), SUCCESS);
        std::thread::sleep(Duration::from_millis(milliseconds));
    }
}

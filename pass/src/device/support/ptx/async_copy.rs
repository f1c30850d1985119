//! Copies to shared memory that go on in the background on a GPU: here they are over when the next
//! instruction begins, so that there is nothing to wait for.
use super::call::Call;
use super::emit::Emitter;
use super::types::bits;

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    if it.mnemonic != "cp" || it.modifiers.first() != Some(&"async") || it.has("bulk") {
        return None;
    }
    match (it.modifiers[1], it.operands) {
        ("commit_group" | "wait_all", []) | ("wait_group", [_]) => Some(()),
        ("mbarrier", [place]) => {
            let place = emitter.pointer(place)?;
            // Without `.noinc` the arrival is in addition to the expected count of the barrier.
            if it.has("noinc") {
                let arrive = [("ptr", place.as_str()), ("i32", "1"), ("i1", "false")];
                emitter.call("softgpu.mbarrier_arrive", "i64", &arrive);
            }
            Some(())
        }
        ("ca" | "cg", [to, from, size, rest @ ..]) => {
            let (to, from) = (emitter.pointer(to)?, emitter.pointer(from)?);
            let size = emitter.read(size, bits(32))?;
            // Bytes beyond the source's are zero.
            let given = match rest {
                [] => size.clone(),
                [given, ..] if !it.has("cache_hint") => emitter.read(given, bits(32))?,
                _ => return None,
            };
            let given = emitter.call("llvm.umin.i32", "i32", &[("i32", &given), ("i32", &size)]);
            emitter.line(format!(
                "call void @llvm.memset.p0.i32(ptr {to}, i8 0, i32 {size}, i1 false)"
            ));
            emitter.line(format!(
                "call void @llvm.memcpy.p0.p0.i32(ptr {to}, ptr {from}, i32 {given}, i1 false)"
            ));
            Some(())
        }
        _ => None,
    }
}

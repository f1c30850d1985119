//! Jumps, the end of a thread, traps, and what only advises.
use super::call::Call;
use super::emit::Emitter;
use super::parse::Operand;
use super::types::bits;

/// The block of a label.
pub fn block(label: &str) -> String {
    let plain: String = label
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '.' })
        .collect();
    format!("L.{plain}")
}

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    match (it.mnemonic, it.operands) {
        ("bra", [Operand::Word(label)]) => emitter.jump(&block(label)),
        ("exit", []) => {
            emitter.line("call void @softgpu.exit()");
            emitter.unreachable();
        }
        ("trap", []) => {
            emitter.line("call void @softgpu.trapped()");
            emitter.unreachable();
        }
        ("nanosleep", [time]) => {
            let time = emitter.read(time, bits(32))?;
            emitter.line(format!("call void @softgpu.sleep(i32 {time})"));
        }
        ("brkpt" | "yield" | "pause", []) | ("pmevent", [_]) => {}
        ("griddepcontrol" | "setmaxnreg", _) => {}
        ("prefetch" | "prefetchu" | "applypriority" | "discard", [_, ..]) => {}
        _ => return None,
    }
    Some(())
}

//! What threads do together: barriers, shuffles, votes, matches and reductions, and barriers in shared
//! memory.
use super::call::Call;
use super::emit::Emitter;
use super::parse::Operand;
use super::types::{PREDICATE, ScalarKind, Type, bits};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    match it.mnemonic {
        "bar" | "barrier" => barrier(emitter, it),
        "shfl" => shuffle(emitter, it),
        "vote" => vote(emitter, it),
        "match" => matched(emitter, it),
        "redux" => reduced(emitter, it),
        "activemask" => {
            let [to] = it.operands else { return None };
            let mask = emitter.call("softgpu.active_mask", "i32", &[]);
            emitter.write(to, bits(32), &mask)
        }
        "elect" => {
            let [Operand::Pair(lane, leader), mask] = it.operands else {
                return None;
            };
            let mask = emitter.read(mask, bits(32))?;
            emitter.line(format!("call void @softgpu.warp_sync(i32 {mask})"));
            let first = emitter.call("llvm.cttz.i32", "i32", &[("i32", &mask), ("i1", "false")]);
            let own = emitter.intrinsic("read.ptx.sreg.laneid", "i32", &[])?;
            let found = emitter.value(format!("icmp eq i32 {first}, {own}"));
            emitter.write(lane, bits(32), &first)?;
            emitter.write(leader, PREDICATE, &found)
        }
        "mbarrier" => shared_barrier(emitter, it),
        _ => None,
    }
}

fn barrier(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let modifiers: Vec<&str> = it
        .modifiers
        .iter()
        .copied()
        .filter(|text| !["aligned", "cta"].contains(text))
        .collect();
    match (modifiers.as_slice(), it.operands) {
        (["warp", "sync"], [mask]) => {
            let mask = emitter.read(mask, bits(32))?;
            emitter.line(format!("call void @softgpu.warp_sync(i32 {mask})"));
            Some(())
        }
        (["sync"], [id, rest @ ..]) => {
            let id = emitter.read(id, bits(32))?;
            let threads = count(emitter, rest)?;
            emitter.line(format!("call void @softgpu.barrier(i32 {id}, i32 {threads})"));
            Some(())
        }
        (["arrive"], [id, threads]) => {
            let (id, threads) = (emitter.read(id, bits(32))?, emitter.read(threads, bits(32))?);
            emitter.line(format!(
                "call void @softgpu.barrier_arrive(i32 {id}, i32 {threads})"
            ));
            Some(())
        }
        // One block is a cluster of its own.
        (["cluster", "arrive", ..], _) => Some(()),
        (["cluster", "wait", ..], _) => {
            emitter.line("call void @softgpu.barrier(i32 0, i32 0)");
            Some(())
        }
        (["red", kind, _], [to, id, rest @ .., predicate]) => {
            let kind = ["popc", "and", "or"].iter().position(|known| known == kind)?;
            let id = emitter.read(id, bits(32))?;
            let threads = count(emitter, rest)?;
            let predicate = emitter.read(predicate, PREDICATE)?;
            let predicate = emitter.value(format!("zext i1 {predicate} to i32"));
            let result = emitter.call(
                "softgpu.barrier_reduce",
                "i32",
                &[
                    ("i32", &id),
                    ("i32", &threads),
                    ("i32", &kind.to_string()),
                    ("i32", &predicate),
                ],
            );
            put(emitter, to, kind == 0, &result)
        }
        _ => None,
    }
}

fn count(emitter: &mut Emitter, operands: &[Operand]) -> Option<String> {
    match operands {
        [] => Some("0".into()),
        [threads] => emitter.read(threads, bits(32)),
        _ => None,
    }
}

/// Writes a number, or whether it is one.
fn put(emitter: &mut Emitter, to: &Operand, number: bool, value: &str) -> Option<()> {
    if number {
        return emitter.write(to, bits(32), value);
    }
    let truth = emitter.value(format!("icmp ne i32 {value}, 0"));
    emitter.write(to, PREDICATE, &truth)
}

fn shuffle(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let kind = ["idx", "up", "down", "bfly"]
        .iter()
        .position(|kind| it.has(kind))?;
    // Without `.sync`, as before sm_70, the lanes are those that are active.
    let (to, value, lane, clamp, mask) = match it.operands {
        [to, value, lane, clamp, mask] if it.has("sync") => (to, value, lane, clamp, Some(mask)),
        [to, value, lane, clamp] => (to, value, lane, clamp, None),
        _ => return None,
    };
    let mask = match mask {
        Some(mask) => emitter.read(mask, bits(32))?,
        None => emitter.call("softgpu.active_mask", "i32", &[]),
    };
    let (value, lane) = (emitter.read(value, bits(32))?, emitter.read(lane, bits(32))?);
    let clamp = emitter.read(clamp, bits(32))?;
    let range = emitter.room("i8");
    let result = emitter.call(
        "softgpu.shuffle",
        "i32",
        &[
            ("i32", &kind.to_string()),
            ("i32", &mask),
            ("i32", &value),
            ("i32", &lane),
            ("i32", &clamp),
            ("ptr", &range),
        ],
    );
    let Operand::Pair(to, inside) = to else {
        return emitter.write(to, bits(32), &result);
    };
    let found = emitter.value(format!("load i8, ptr {range}"));
    let found = emitter.value(format!("trunc i8 {found} to i1"));
    emitter.write(to, bits(32), &result)?;
    emitter.write(inside, PREDICATE, &found)
}

fn vote(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let kind = ["all", "any", "uni", "ballot"]
        .iter()
        .position(|kind| it.has(kind))?;
    let (to, predicate, mask) = match it.operands {
        [to, predicate, mask] if it.has("sync") => (to, predicate, Some(mask)),
        [to, predicate] => (to, predicate, None),
        _ => return None,
    };
    let predicate = emitter.read(predicate, PREDICATE)?;
    let predicate = emitter.value(format!("zext i1 {predicate} to i32"));
    let mask = match mask {
        Some(mask) => emitter.read(mask, bits(32))?,
        None => emitter.call("softgpu.active_mask", "i32", &[]),
    };
    let result = emitter.call(
        "softgpu.vote",
        "i32",
        &[("i32", &kind.to_string()), ("i32", &mask), ("i32", &predicate)],
    );
    put(emitter, to, kind == 3, &result)
}

fn matched(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let [to, value, mask] = it.operands else {
        return None;
    };
    let ty = it.ty()?;
    let (value, mask) = (emitter.read(value, ty)?, emitter.read(mask, bits(32))?);
    let register = ty.register();
    let arguments = [("i32", mask.as_str()), (register.as_str(), value.as_str())];
    if it.has("any") {
        let found = emitter.intrinsic(&format!("match.any.sync.{register}"), "i32", &arguments)?;
        return emitter.write(to, bits(32), &found);
    }
    let found = emitter.intrinsic(&format!("match.all.sync.{register}p"), "{ i32, i1 }", &arguments)?;
    let lanes = emitter.value(format!("extractvalue {{ i32, i1 }} {found}, 0"));
    let all = emitter.value(format!("extractvalue {{ i32, i1 }} {found}, 1"));
    let Operand::Pair(to, whether) = to else {
        return emitter.write(to, bits(32), &lanes);
    };
    emitter.write(to, bits(32), &lanes)?;
    emitter.write(whether, PREDICATE, &all)
}

fn reduced(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let (
        [to, value, mask],
        Some(Type {
            kind,
            bits: 32,
            lanes: 1,
        }),
    ) = (it.operands, it.ty())
    else {
        return None;
    };
    let operation = it
        .modifiers
        .iter()
        .find(|text| ["add", "and", "or", "xor", "min", "max"].contains(text))?;
    let name = match (*operation, kind) {
        ("min" | "max", ScalarKind::Unsigned) => format!("redux.sync.u{operation}"),
        _ => format!("redux.sync.{operation}"),
    };
    let (value, mask) = (emitter.read(value, bits(32))?, emitter.read(mask, bits(32))?);
    let result = emitter.intrinsic(&name, "i32", &[("i32", &value), ("i32", &mask)])?;
    emitter.write(to, bits(32), &result)
}

/// `mbarrier.*`: by the prelude's functions, which keep the barrier's state in its 64 bits.
fn shared_barrier(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let place = |emitter: &mut Emitter, operand: &Operand| emitter.pointer(operand);
    match (*it.modifiers.first()?, it.operands) {
        ("init", [at, count]) => {
            let (at, count) = (place(emitter, at)?, emitter.read(count, bits(32))?);
            emitter.line(format!("call void @softgpu.mbarrier_init(ptr {at}, i32 {count})"));
            Some(())
        }
        ("inval", [_]) => Some(()),
        ("arrive" | "arrive_drop", operands) => {
            let drop = it.modifiers[0] == "arrive_drop";
            let (to, at, count) = match operands {
                [at @ Operand::Address(..), rest @ ..] => (None, at, rest.first()),
                [to, at, rest @ ..] => (Some(to), at, rest.first()),
                _ => return None,
            };
            let (at, transfers) = (place(emitter, at)?, it.has("expect_tx"));
            let count = match count {
                // Bytes that no copying unit will bring: copies are over once they are made.
                Some(_) if transfers => return None,
                Some(count) => emitter.read(count, bits(32))?,
                None => "1".into(),
            };
            let token = emitter.call(
                "softgpu.mbarrier_arrive",
                "i64",
                &[
                    ("ptr", &at),
                    ("i32", &count),
                    ("i1", if drop { "true" } else { "false" }),
                ],
            );
            match to {
                Some(to) => emitter.write(to, bits(64), &token),
                None => Some(()),
            }
        }
        (wait @ ("test_wait" | "try_wait"), [to, at, token, ..]) => {
            let at = place(emitter, at)?;
            let parity = it.has("parity");
            let token = emitter.read(token, if parity { bits(32) } else { bits(64) })?;
            let token = emitter.resized(&token, if parity { 32 } else { 64 }, 64, false);
            let name = if parity {
                "softgpu.mbarrier_parity"
            } else {
                "softgpu.mbarrier_token"
            };
            let over = emitter.call(name, "i1", &[("ptr", &at), ("i64", &token)]);
            if wait == "try_wait" {
                emitter.line(format!("call void @softgpu.wait_a_little(i1 {over})"));
            }
            emitter.write(to, PREDICATE, &over)
        }
        ("pending_count", [to, token]) => {
            let token = emitter.read(token, bits(64))?;
            let count = emitter.value(format!("and i64 {token}, 1048575"));
            let count = emitter.value(format!("trunc i64 {count} to i32"));
            emitter.write(to, bits(32), &count)
        }
        _ => None,
    }
}

//! What threads of a block do together: barriers, shuffles, votes, matches and reductions.
use super::body::{ForeignFunction, HostBody};

/// The body of a barrier or warp intrinsic.
pub fn body(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    if let Some(barrier) = name.strip_prefix("barrier.cta.") {
        return self::barrier(&barrier.replace(".aligned", ""), foreign);
    }
    if let Some(shuffle) = name.strip_prefix("shfl.sync.") {
        return self::shuffle(shuffle, foreign);
    }
    if let Some(kind) = name.strip_prefix("redux.sync.") {
        return reduction(kind, foreign);
    }
    match name {
        "bar.warp.sync" => HostBody::inline("call void @softgpu.warp_sync(i32 %a0)\n ret void"),
        "activemask" => HostBody::inline("%r = call i32 @softgpu.active_mask()\n ret i32 %r"),
        "vote.all.sync" => vote(0),
        "vote.any.sync" => vote(1),
        "vote.uni.sync" => vote(2),
        "vote.ballot.sync" => vote(3),
        "match.any.sync.i32" | "match.any.sync.i64" => match_any(foreign),
        "match.all.sync.i32p" | "match.all.sync.i64p" => match_all(foreign),
        _ => None,
    }
}

/// `barrier.cta.*`, less `.aligned`: diverging threads may meet at either form here.
fn barrier(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    let kind = match name {
        "sync.all" => return HostBody::inline("call void @softgpu.barrier(i32 %a0, i32 0)\n ret void"),
        "sync.count" => {
            return HostBody::inline("call void @softgpu.barrier(i32 %a0, i32 %a1)\n ret void");
        }
        "arrive.count" => {
            return HostBody::inline("call void @softgpu.barrier_arrive(i32 %a0, i32 %a1)\n ret void");
        }
        "red.popc.all" | "red.popc.count" => 0,
        "red.and.all" | "red.and.count" => 1,
        "red.or.all" | "red.or.count" => 2,
        _ => return None,
    };
    let (threads, predicate) = if name.ends_with("count") {
        ("%a1", "%a2")
    } else {
        ("0", "%a1")
    };
    let result = match foreign.returns.as_str() {
        "i1" => "%r = icmp ne i32 %v, 0\n ret i1 %r",
        _ => "ret i32 %v",
    };
    HostBody::inline(format!(
        "%p = zext i1 {predicate} to i32
         %v = call i32 @softgpu.barrier_reduce(i32 %a0, i32 {threads}, i32 {kind}, i32 %p)\n {result}"
    ))
}

/// `shfl.sync.<kind>.<type>`; with `p` at the end it also returns whether the source lane was in range.
fn shuffle(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    let (kind, ty) = name.split_once('.')?;
    let kind = ["idx", "up", "down", "bfly"]
        .iter()
        .position(|&known| known == kind)?;
    let (ty, tells_range) = ty.strip_suffix('p').map_or((ty, false), |ty| (ty, true));
    let value = match ty {
        "i32" => "%v = add i32 %a1, 0",
        "f32" => "%v = bitcast float %a1 to i32",
        _ => return None,
    };
    let cast = match ty {
        "i32" => "%x = add i32 %s, 0",
        _ => "%x = bitcast i32 %s to float",
    };
    let call = |range: &str| {
        format!("%s = call i32 @softgpu.shuffle(i32 {kind}, i32 %a0, i32 %v, i32 %a2, i32 %a3, ptr {range})")
    };
    let returns = &foreign.returns;
    if !tells_range {
        return HostBody::inline(format!("{value}\n {}\n {cast}\n ret {returns} %x", call("null")));
    }
    let ty = if ty == "i32" { "i32" } else { "float" };
    HostBody::inline(format!(
        "%range = alloca i8\n {value}\n {}\n {cast}\n %b = load i8, ptr %range\n %p = trunc i8 %b to i1
         %half = insertvalue {returns} poison, {ty} %x, 0\n %r = insertvalue {returns} %half, i1 %p, 1\n ret {returns} %r",
        call("%range")
    ))
}

fn vote(kind: u32) -> Option<HostBody> {
    let result = if kind == 3 {
        "ret i32 %v"
    } else {
        "%r = icmp ne i32 %v, 0\n ret i1 %r"
    };
    HostBody::inline(format!(
        "%p = zext i1 %a1 to i32\n %v = call i32 @softgpu.vote(i32 {kind}, i32 %a0, i32 %p)\n {result}"
    ))
}

/// A fold over the lanes that `%a0` names, each read with a shuffle: they all run the same steps.
/// `step` takes `%v`, the lane's value, and `%acc` to `%next`; `end` has the last `%acc`.
fn over_lanes(value: &str, acc: &str, first: &str, step: &str, end: &str) -> Option<HostBody> {
    let read = match value {
        "i64" => {
            "%lo = trunc i64 %a1 to i32\n %up = lshr i64 %a1, 32\n %hi = trunc i64 %up to i32
             %slo = call i32 @softgpu.shuffle(i32 0, i32 %a0, i32 %lo, i32 %i, i32 31, ptr null)
             %shi = call i32 @softgpu.shuffle(i32 0, i32 %a0, i32 %hi, i32 %i, i32 31, ptr null)
             %zlo = zext i32 %slo to i64\n %zhi = zext i32 %shi to i64\n %top = shl i64 %zhi, 32
             %v = or i64 %top, %zlo"
        }
        _ => "%v = call i32 @softgpu.shuffle(i32 0, i32 %a0, i32 %a1, i32 %i, i32 31, ptr null)",
    };
    let text = format!(
        "br label %loop
        loop:
         %i = phi i32 [ 0, %entry ], [ %j, %latch ]
         %acc = phi {acc} [ {first}, %entry ], [ %kept, %latch ]
         %bit = shl i32 1, %i
         %in = and i32 %a0, %bit
         %member = icmp ne i32 %in, 0
         br i1 %member, label %read, label %latch
        read:
         {read}
         {step}
         br label %latch
        latch:
         %kept = phi {acc} [ %acc, %loop ], [ %next, %read ]
         %j = add i32 %i, 1
         %more = icmp ult i32 %j, 32
         br i1 %more, label %loop, label %done
        done:
         {end}"
    );
    Some(HostBody {
        text,
        attributes: "noinline",
        ..HostBody::default()
    })
}

fn match_any(foreign: &ForeignFunction) -> Option<HostBody> {
    let ty = foreign.takes.get(1)?;
    let step = format!(
        "%same = icmp eq {ty} %v, %a1\n %one = select i1 %same, i32 %bit, i32 0\n %next = or i32 %acc, %one"
    );
    over_lanes(ty, "i32", "0", &step, "ret i32 %kept")
}

fn match_all(foreign: &ForeignFunction) -> Option<HostBody> {
    let (ty, returns) = (foreign.takes.get(1)?, &foreign.returns);
    let step = format!("%same = icmp eq {ty} %v, %a1\n %next = and i1 %acc, %same");
    let end = format!(
        "%m = select i1 %kept, i32 %a0, i32 0\n %h = insertvalue {returns} poison, i32 %m, 0
         %r = insertvalue {returns} %h, i1 %kept, 1\n ret {returns} %r"
    );
    over_lanes(ty, "i1", "true", &step, &end)
}

/// `redux.sync.*` of 32-bit integers; its operands are (value, mask).
fn reduction(kind: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    if !foreign.is("i32", &["i32", "i32"]) {
        return None;
    }
    let choose = |name: &str| format!("%next = call i32 @llvm.{name}.i32(i32 %acc, i32 %v)");
    let (first, step) = match kind {
        "add" | "or" | "xor" => ("0".to_owned(), format!("%next = {kind} i32 %acc, %v")),
        "and" => ("-1".to_owned(), "%next = and i32 %acc, %v".to_owned()),
        "min" => (i32::MAX.to_string(), choose("smin")),
        "max" => (i32::MIN.to_string(), choose("smax")),
        "umin" => ("-1".to_owned(), choose("umin")),
        "umax" => ("0".to_owned(), choose("umax")),
        _ => return None,
    };
    let mut body = over_lanes("i32", "i32", &first, &step, "ret i32 %kept")?;
    // The fold above has the mask first.
    body.text = body
        .text
        .replace("%a0", "%mask")
        .replace("%a1", "%a0")
        .replace("%mask", "%a1");
    Some(body)
}

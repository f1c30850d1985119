//! Where addresses go: rules that say what each value and each memory gets from others, applied until nothing
//! changes. The order of instructions plays no role: what may happen at some time counts.
use std::collections::BTreeMap;

use super::memory::{self, KernelMemory};
pub use super::rule::{EscapeRule, How, MemoryId, ValueId};
use super::set::{Token, TokenSet};

/// Values, memories and rules.
#[derive(Default)]
pub struct Solver {
    nodes: Vec<TokenSet>,
    places: Vec<KernelMemory>,
    /// Each with the scope that it is of.
    rules: Vec<(EscapeRule, usize)>,
    /// Of each scope which given addresses its rules may see; all for those that are not listed.
    scopes: Vec<Vec<bool>>,
    scope: usize,
    ways: Vec<String>,
    /// What is published, by the numbers of the given addresses, and how.
    published: BTreeMap<u32, How>,
    changed: bool,
}

impl Solver {
    /// A new value.
    pub fn node(&mut self) -> ValueId {
        self.nodes.push(TokenSet::default());
        (self.nodes.len() - 1) as ValueId
    }

    /// A new memory.
    pub fn place(&mut self) -> MemoryId {
        self.places.push(KernelMemory::default());
        (self.places.len() - 1) as MemoryId
    }

    /// A way in which addresses are published, in words that follow "the kernel".
    pub fn way(&mut self, words: &str) -> How {
        if let Some(known) = self.ways.iter().position(|one| one == words) {
            return known as How;
        }
        self.ways.push(words.to_owned());
        (self.ways.len() - 1) as How
    }

    /// A value holds something from the start.
    pub fn hold(&mut self, node: ValueId, token: Token) {
        self.changed |= self.nodes[node as usize].insert(token);
    }

    /// A memory holds something from the start, in these bytes; in any for none.
    pub fn fill(&mut self, place: MemoryId, bytes: Option<(i64, i64)>, token: Token) {
        match bytes {
            Some(bytes) => self.put(place, bytes, &TokenSet::of(token)),
            None => self.put(place, memory::reached(i32::MIN, 0, None), &TokenSet::of(token)),
        }
    }

    /// Begins a scope: the rules of a function see only what the kernels are given that reach it. So what two
    /// kernels have in common does not take the address of one to what only the other calls.
    pub fn scope(&mut self, sees: Vec<bool>) {
        self.scopes.push(sees);
        self.scope = self.scopes.len() - 1;
    }

    /// Adds a rule to the scope that began last.
    pub fn rule(&mut self, rule: EscapeRule) {
        self.rules.push((rule, self.scope));
    }

    /// Applies all rules. Which given addresses are published, by their numbers, each with how.
    pub fn solve(mut self) -> BTreeMap<u32, String> {
        loop {
            self.changed = false;
            for at in 0..self.rules.len() {
                let (rule, scope) = self.rules[at];
                self.scope = scope;
                self.apply(rule);
            }
            if !self.changed {
                break;
            }
        }
        let ways = self.ways;
        let with_words = |(given, how): (u32, How)| (given, ways[how as usize].clone());
        self.published.into_iter().map(with_words).collect()
    }

    fn set(&self, node: ValueId) -> TokenSet {
        self.nodes[node as usize].clone()
    }

    fn add(&mut self, to: ValueId, set: &TokenSet) {
        let seen = self.seen(set);
        self.changed |= self.nodes[to as usize].extend(&seen);
    }

    /// What the rules of the scope may see of a set.
    fn seen(&self, set: &TokenSet) -> TokenSet {
        let scope = self.scopes.get(self.scope);
        set.map(|token| match token {
            Token::Address(given) | Token::Bits(given) => {
                let sees = scope.and_then(|one| one.get(given as usize));
                sees.copied().unwrap_or(true).then_some(token)
            }
            Token::Unknown | Token::Local(..) => Some(token),
        })
    }

    fn apply(&mut self, rule: EscapeRule) {
        match rule {
            EscapeRule::Copy { to, from } => self.add(to, &self.set(from)),
            EscapeRule::Compute { to, from } => self.add(to, &mangled(&self.set(from))),
            EscapeRule::Sum { to, one, other } => self.sum(to, &self.set(one), &self.set(other)),
            EscapeRule::FewBits { to, from } => {
                let left = |token| match token {
                    Token::Address(_) | Token::Local(..) => None,
                    other => Some(other),
                };
                self.add(to, &self.set(from).map(left));
            }
            EscapeRule::Move { to, from, by } => {
                self.add(to, &self.set(from).map(|token| Some(token.moved(by))));
            }
            EscapeRule::Load { to, at, size } => self.add(to, &self.loaded(&self.set(at), size)),
            EscapeRule::LoadInto { to, at, size } => {
                for (bytes, set) in self.parts(&self.set(at), size) {
                    self.put(to, bytes, &set);
                }
            }
            EscapeRule::Store { at, from, size, how } => {
                self.store(&self.set(at), &[(0, size, self.set(from))], how);
            }
            EscapeRule::StoreFrom { at, from, how } => {
                let parts = self.places[from as usize].parts((0, i64::from(i32::MAX)));
                self.store(&self.set(at), &fields(parts), how);
            }
            EscapeRule::Transfer { to, from, size, how } => {
                let parts = self.parts(&self.set(from), size);
                self.store(&self.set(to), &fields(parts), how);
            }
            EscapeRule::Extract { to, from, at, size } => {
                let found = self.places[from as usize].read((at, at + size.max(1)), Some(size));
                self.add(to, &found);
            }
            EscapeRule::ExtractInto { to, from, at, size } => {
                for (bytes, set) in self.places[from as usize].parts((at, at + size.max(1))) {
                    self.put(to, bytes, &set);
                }
            }
            EscapeRule::Insert { to, at, size, from } => {
                self.put(to, (at, at + size.max(1)), &self.set(from));
            }
            EscapeRule::InsertFrom { to, at, from } => {
                for (bytes, set) in self.places[from as usize].parts((0, i64::from(i32::MAX))) {
                    self.put(to, memory::moved(bytes, at), &set);
                }
            }
            EscapeRule::Publish { from, how } => self.publish(&self.set(from), how),
            EscapeRule::PublishAll { from, how } => self.publish(&self.places[from as usize].all(), how),
            EscapeRule::Expose { from, how } => {
                for token in self.set(from).iter() {
                    if let Token::Local(place, ..) = token {
                        self.expose(place, how);
                    }
                }
            }
        }
    }

    fn sum(&mut self, to: ValueId, one: &TokenSet, other: &TokenSet) {
        for (set, with) in [(one, other), (other, one)] {
            match with.holds_given() {
                true => self.add(to, &mangled(set)),
                false => self.add(to, &set.map(|token| Some(token.moved(None)))),
            }
        }
    }

    fn loaded(&self, at: &TokenSet, size: Option<i64>) -> TokenSet {
        let mut found = TokenSet::default();
        if at.is_empty() {
            found.insert(Token::Unknown);
        }
        for token in at.iter() {
            match token {
                Token::Local(place, first, last) => {
                    let bytes = memory::reached(first, last, size);
                    found.extend(&self.places[place as usize].read(bytes, size));
                }
                _ => drop(found.insert(Token::Unknown)),
            }
        }
        found
    }

    /// What lies where an address points to, with where from there on.
    fn parts(&self, at: &TokenSet, size: Option<i64>) -> Vec<((i64, i64), TokenSet)> {
        let everywhere = memory::reached(i32::MIN, 0, None);
        let mut found = Vec::new();
        let mut outside = at.is_empty();
        for token in at.iter() {
            match token {
                Token::Local(place, first, last) => {
                    let memory = &self.places[place as usize];
                    match first == last {
                        true => found.extend(memory.parts(memory::reached(first, last, size))),
                        false => {
                            found.push((everywhere, memory.read(memory::reached(first, last, size), None)))
                        }
                    }
                }
                _ => outside = true,
            }
        }
        if outside {
            found.push((everywhere, TokenSet::of(Token::Unknown)));
        }
        found
    }

    /// Writes fields at an address.
    fn store(&mut self, at: &TokenSet, fields: &[Field], how: How) {
        let mut outside = at.is_empty();
        for token in at.iter() {
            let Token::Local(place, first, last) = token else {
                outside = true;
                continue;
            };
            for (offset, size, set) in fields {
                let bytes = match size {
                    None => memory::reached(i32::MIN, 0, None),
                    Some(_) => memory::moved(memory::reached(first, last, *size), *offset),
                };
                self.put(place, bytes, set);
            }
        }
        if outside {
            fields.iter().for_each(|(_, _, set)| self.publish(set, how));
        }
    }

    fn put(&mut self, place: MemoryId, bytes: (i64, i64), set: &TokenSet) {
        let seen = self.seen(set);
        let memory = &mut self.places[place as usize];
        self.changed |= memory.add(bytes, &seen);
        if let Some(how) = memory.escaped {
            self.publish(&seen, how);
        }
    }

    fn publish(&mut self, set: &TokenSet, how: How) {
        let seen = self.seen(set);
        for token in seen.iter() {
            match token {
                // The first way that was found is the one that is told.
                Token::Address(given) | Token::Bits(given) => {
                    self.published.entry(given).or_insert(how);
                }
                Token::Local(place, ..) => self.expose(place, how),
                Token::Unknown => {}
            }
        }
    }

    fn expose(&mut self, place: MemoryId, how: How) {
        let memory = &mut self.places[place as usize];
        if memory.escaped.is_none() {
            memory.escaped = Some(how);
            memory.open();
            self.changed = true;
            let all = memory.all();
            self.publish(&all, how);
        }
    }
}

/// What is written together: its offset, its bytes where they are known, and what it holds.
type Field = (i64, Option<i64>, TokenSet);

fn mangled(set: &TokenSet) -> TokenSet {
    set.map(|token| Some(token.mangled()))
}

/// The fields that [`KernelMemory::parts`] gave.
fn fields(parts: Vec<((i64, i64), TokenSet)>) -> Vec<Field> {
    let field = |(bytes, set): ((i64, i64), TokenSet)| match memory::is_all(bytes) {
        true => (0, None, set),
        false => (bytes.0, Some(bytes.1 - bytes.0), set),
    };
    parts.into_iter().map(field).collect()
}

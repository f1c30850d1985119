//! What a value of device code may hold, as far as addresses go.

/// One thing that a value may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Token {
    /// Something that is not followed. As an address, it may be one of memory that outlives the kernel.
    Unknown,
    /// An address that a kernel is given, by its number, or one counted from it.
    Address(u32),
    /// A number that was computed of it.
    Bits(u32),
    /// An address of memory that ends with the kernel: the memory's number, and the first and the last byte of
    /// it that this may be the address of.
    Local(u32, i32, i32),
}

/// How many places of one memory a value may point to before it counts as pointing anywhere in it.
const PLACES: usize = 8;

impl Token {
    /// An address anywhere in a memory.
    pub fn anywhere(memory: u32) -> Self {
        Self::Local(memory, i32::MIN, i32::MAX)
    }

    /// The address so many bytes on, or up to `span` bytes behind that; none of them known for `None`.
    pub fn moved(self, bytes: Option<(i64, i64)>) -> Self {
        let Self::Local(memory, first, last) = self else {
            return self;
        };
        let moved = || {
            let (by, span) = bytes.filter(|_| first != i32::MIN)?;
            let first = i32::try_from(i64::from(first).checked_add(by)?).ok()?;
            let last = i64::from(last).checked_add(by)?.checked_add(span)?;
            Some(Self::Local(memory, first, i32::try_from(last).ok()?))
        };
        moved().unwrap_or(Self::anywhere(memory))
    }

    /// What is left of it in a number that was computed of it.
    pub fn mangled(self) -> Self {
        match self {
            Self::Address(given) => Self::Bits(given),
            Self::Local(memory, ..) => Self::anywhere(memory),
            other => other,
        }
    }
}

/// All that a value may hold; nothing for numbers that have nothing to do with an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSet(Vec<Token>);

impl TokenSet {
    /// Of one thing.
    pub fn of(token: Token) -> Self {
        Self(vec![token])
    }

    /// Adds one thing. Whether it is new.
    pub fn insert(&mut self, token: Token) -> bool {
        if let Token::Local(memory, ..) = token {
            let same = |one: &&Token| matches!(one, Token::Local(other, ..) if *other == memory);
            let known = self.0.iter().filter(same).count();
            if self.0.contains(&Token::anywhere(memory)) {
                return false;
            }
            if (known >= PLACES && !self.0.contains(&token)) || token == Token::anywhere(memory) {
                self.0.retain(|one| !same(&one));
                return self.add(Token::anywhere(memory));
            }
        }
        self.add(token)
    }

    fn add(&mut self, token: Token) -> bool {
        match self.0.binary_search(&token) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, token);
                true
            }
        }
    }

    /// Adds all of another set. Whether something is new.
    pub fn extend(&mut self, other: &Self) -> bool {
        other.iter().fold(false, |new, token| self.insert(token) | new)
    }

    /// Every thing in it.
    pub fn iter(&self) -> impl Iterator<Item = Token> {
        self.0.iter().copied()
    }

    /// The set of what becomes of each.
    pub fn map(&self, change: impl Fn(Token) -> Option<Token>) -> Self {
        let mut all = Self::default();
        for token in self.iter().filter_map(change) {
            all.insert(token);
        }
        all
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address that a kernel is given, or a number computed of one, is in it.
    pub fn holds_given(&self) -> bool {
        self.iter()
            .any(|token| matches!(token, Token::Address(_) | Token::Bits(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_that_walks_ends_up_anywhere() {
        let mut set = TokenSet::of(Token::Local(3, 0, 0));
        while set.extend(&set.clone().map(|one| Some(one.moved(Some((8, 0)))))) {}
        assert_eq!(set, TokenSet::of(Token::anywhere(3)));
        assert!(!set.insert(Token::Local(3, 8, 8)));
        assert!(set.insert(Token::Local(4, 8, 8)));
    }

    #[test]
    fn what_is_computed_of_an_address() {
        assert_eq!(Token::Address(1).mangled(), Token::Bits(1));
        assert_eq!(Token::Address(1).moved(None), Token::Address(1));
        assert_eq!(
            Token::Local(1, 4, 8).moved(Some((-4, 16))),
            Token::Local(1, 0, 20)
        );
        assert_eq!(Token::Local(1, 4, 8).moved(None), Token::anywhere(1));
        assert_eq!(
            Token::Local(1, i32::MAX, i32::MAX).moved(Some((1, 0))),
            Token::anywhere(1)
        );
    }
}

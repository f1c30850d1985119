//! Rules: what one value or memory gets from others. [`super::solve`] applies them.

/// The number of a value.
pub type ValueId = u32;
/// The number of a memory that ends with the kernel.
pub type MemoryId = u32;
/// The number of a way in which an address is published.
pub type How = u32;

/// What one value or memory gets from others. Sizes and offsets are in bytes.
#[derive(Clone, Copy, Debug)]
pub enum EscapeRule {
    /// One node may have the values of the other.
    Copy { to: ValueId, from: ValueId },
    /// A number computed of it.
    Compute { to: ValueId, from: ValueId },
    /// A sum: an address, if only one of them is.
    Sum {
        to: ValueId,
        one: ValueId,
        other: ValueId,
    },
    /// So few of its bits that no address can be made of them.
    FewBits { to: ValueId, from: ValueId },
    /// The address `by` bytes on, or up to a `span` behind that.
    Move {
        to: ValueId,
        from: ValueId,
        by: Option<(i64, i64)>,
    },
    /// What is read at an address.
    Load {
        to: ValueId,
        at: ValueId,
        size: Option<i64>,
    },
    /// A structure that is read at an address.
    LoadInto {
        to: MemoryId,
        at: ValueId,
        size: Option<i64>,
    },
    /// Something is written at an address.
    Store {
        at: ValueId,
        from: ValueId,
        size: Option<i64>,
        how: How,
    },
    /// A structure is written at an address.
    StoreFrom { at: ValueId, from: MemoryId, how: How },
    /// Bytes are copied from address to address.
    Transfer {
        to: ValueId,
        from: ValueId,
        size: Option<i64>,
        how: How,
    },
    /// A field of a structure.
    Extract {
        to: ValueId,
        from: MemoryId,
        at: i64,
        size: i64,
    },
    /// A field of a structure that is a structure.
    ExtractInto {
        to: MemoryId,
        from: MemoryId,
        at: i64,
        size: i64,
    },
    /// A structure gets a field.
    Insert {
        to: MemoryId,
        at: i64,
        size: i64,
        from: ValueId,
    },
    /// A structure gets another one at an offset, or becomes it.
    InsertFrom { to: MemoryId, at: i64, from: MemoryId },
    /// It goes where it is not followed.
    Publish { from: ValueId, how: How },
    /// All in it goes where it is not followed.
    PublishAll { from: MemoryId, how: How },
    /// All that lies in the memories that it points to goes where it is not followed.
    Expose { from: ValueId, how: How },
}

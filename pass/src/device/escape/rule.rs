//! Rules: what one value or memory gets from others. [`super::solve`] applies them.

/// The number of a value.
pub type Node = u32;
/// The number of a memory that ends with the kernel.
pub type Place = u32;
/// The number of a way in which an address is published.
pub type How = u32;

/// What one value or memory gets from others. Sizes and offsets are in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// One node may have the values of the other.
    Copy { to: Node, from: Node },
    /// A number computed of it.
    Compute { to: Node, from: Node },
    /// A sum: an address, if only one of them is.
    Sum { to: Node, one: Node, other: Node },
    /// So few of its bits that no address can be made of them.
    FewBits { to: Node, from: Node },
    /// The address `by` bytes on, or up to a `span` behind that.
    Move {
        to: Node,
        from: Node,
        by: Option<(i64, i64)>,
    },
    /// What is read at an address.
    Load { to: Node, at: Node, size: Option<i64> },
    /// A structure that is read at an address.
    LoadInto { to: Place, at: Node, size: Option<i64> },
    /// Something is written at an address.
    Store {
        at: Node,
        from: Node,
        size: Option<i64>,
        how: How,
    },
    /// A structure is written at an address.
    StoreFrom { at: Node, from: Place, how: How },
    /// Bytes are copied from address to address.
    Transfer {
        to: Node,
        from: Node,
        size: Option<i64>,
        how: How,
    },
    /// A field of a structure.
    Extract {
        to: Node,
        from: Place,
        at: i64,
        size: i64,
    },
    /// A field of a structure that is a structure.
    ExtractInto {
        to: Place,
        from: Place,
        at: i64,
        size: i64,
    },
    /// A structure gets a field.
    Insert {
        to: Place,
        at: i64,
        size: i64,
        from: Node,
    },
    /// A structure gets another one at an offset, or becomes it.
    InsertFrom { to: Place, at: i64, from: Place },
    /// It goes where it is not followed.
    Publish { from: Node, how: How },
    /// All in it goes where it is not followed.
    PublishAll { from: Place, how: How },
    /// All that lies in the memories that it points to goes where it is not followed.
    Expose { from: Node, how: How },
}

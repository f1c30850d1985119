//! Products of matrices that the lanes of a warp hold: `wmma` and `mma.sync`.
//!
//! What lane holds which elements is said in `include/softgpu_image.h`, and so is the word that a shape is.
//! Products of the short formats are exact, and summed in double, from C on in the order of k; the sum is
//! rounded once. A GPU sums with fewer bits, in an order of its own. Doubles are summed by fused
//! multiplications and additions.

mod element;

use element::Values;
use mgb_abi::matrix::ElementType;

/// Fused multiplications and additions of single precision in the time of which a matrix unit does as many
/// more: of halves this many. Halves, as on an H100: 1024 per cycle and multiprocessor, beside 128.
const HALVES_PER_LANE: u64 = 16;

/// A product of matrices, by its word.
#[derive(Clone, Copy, Debug)]
struct ProductShape {
    m: usize,
    n: usize,
    k: usize,
    a: ElementType,
    b: ElementType,
    c: ElementType,
    d: ElementType,
    saturates: bool,
    and: bool,
}

/// How a matrix lies in the lanes: `rows` and `columns` as they lie, of B the transpose's.
#[derive(Clone, Copy, Debug)]
struct Fragment {
    element: ElementType,
    rows: usize,
    columns: usize,
    /// Neighbours in one lane.
    run: usize,
}

/// The operands of a lane: registers of A, of B, and of C, one behind the other; D's come to the start.
pub type Operands = *mut u8;

impl ProductShape {
    fn of(word: u64) -> Option<ProductShape> {
        let field = |at: u32, bits: u32| (word >> at & ((1 << bits) - 1)) as usize;
        let element = |at: u32| ElementType::of(field(at, 4) as u64);
        let shape = ProductShape {
            m: field(0, 8),
            n: field(8, 8),
            k: field(16, 16),
            a: element(32)?,
            b: element(36)?,
            c: element(40)?,
            d: element(44)?,
            saturates: field(48, 1) == 1,
            and: field(49, 1) == 1,
        };
        let fits = |fragment: Fragment| {
            fragment.rows.is_multiple_of(8) && fragment.columns.is_multiple_of(4 * fragment.run)
        };
        let fragments = [shape.a(), shape.b(), shape.sum(shape.c), shape.sum(shape.d)];
        let sums_fit = [shape.c, shape.d]
            .iter()
            .all(|sum| sum.is_integer() == shape.a.is_integer() && sum.bits() >= 16);
        (fragments.into_iter().all(fits) && sums_fit).then_some(shape)
    }

    fn a(&self) -> Fragment {
        Fragment::new(self.a, self.m, self.k, self.a.per_register())
    }

    fn b(&self) -> Fragment {
        Fragment::new(self.b, self.n, self.k, self.b.per_register())
    }

    fn sum(&self, element: ElementType) -> Fragment {
        Fragment::new(element, self.m, self.n, 2)
    }
}

impl Fragment {
    fn new(element: ElementType, rows: usize, columns: usize, run: u32) -> Fragment {
        Fragment {
            element,
            rows,
            columns,
            run: run as usize,
        }
    }

    fn elements(&self) -> usize {
        self.rows * self.columns / 32
    }

    /// Bytes of a lane's registers.
    fn bytes(&self) -> usize {
        self.elements() * self.element.bits() as usize / 8
    }

    /// The row and the column of a lane's element.
    fn place(&self, lane: usize, element: usize) -> (usize, usize) {
        let (tile, within) = (element / self.run, element % self.run);
        let below = self.rows / 8;
        let row = tile % below * 8 + lane / 4;
        let column = (tile / below * 4 + lane % 4) * self.run + within;
        (row, column)
    }

    /// Hands `take` the place and the bits of each of a lane's elements.
    ///
    /// # Safety
    /// `registers` is valid for reads of [`Fragment::bytes`].
    unsafe fn read(&self, lane: usize, registers: *const u8, mut take: impl FnMut((usize, usize), u64)) {
        let bits = self.element.bits() as usize;
        for element in 0..self.elements() {
            let at = element * bits;
            // SAFETY: the element lies within the registers, which are readable: contract of `read`.
            let found = unsafe {
                let place = registers.add(at / 8);
                match bits {
                    64 => place.cast::<u64>().read_unaligned(),
                    32 => u64::from(place.cast::<u32>().read_unaligned()),
                    16 => u64::from(place.cast::<u16>().read_unaligned()),
                    _ => u64::from(*place) >> (at % 8) & ((1 << bits) - 1),
                }
            };
            take(self.place(lane, element), found);
        }
    }

    /// Writes a lane's elements, the bits of which `give` knows by place. Sums have at least 16 bits.
    ///
    /// # Safety
    /// `registers` is valid for writes of [`Fragment::bytes`].
    unsafe fn write(&self, lane: usize, registers: *mut u8, give: impl Fn((usize, usize)) -> u64) {
        for element in 0..self.elements() {
            let value = give(self.place(lane, element));
            // SAFETY: the element lies within the registers, which are writable: contract of `write`.
            unsafe {
                match self.element.bits() {
                    64 => registers.cast::<u64>().add(element).write_unaligned(value),
                    32 => registers.cast::<u32>().add(element).write_unaligned(value as u32),
                    _ => registers.cast::<u16>().add(element).write_unaligned(value as u16),
                }
            }
        }
    }
}

/// Whether a word is that of a product this library can make.
pub fn is_known(word: u64) -> bool {
    ProductShape::of(word).is_some()
}

/// Instructions that a product counts as, for each of its lanes.
pub fn instructions(word: u64) -> u64 {
    let Some(shape) = ProductShape::of(word) else {
        return 1;
    };
    let each = match shape.a.bits() {
        64 => 1,
        32 => HALVES_PER_LANE / 2,
        16 => HALVES_PER_LANE,
        bits => HALVES_PER_LANE * 16 / u64::from(bits),
    };
    ((shape.m * shape.n * shape.k / 32) as u64).div_ceil(each)
}

/// Multiplies. What a lane that is not there would hold is zero.
///
/// # Safety
/// The word [is known](is_known), and `operands` gives each lane null or a place that is valid for reads of
/// its registers of A, B and C, and for writes of its registers of D.
pub unsafe fn multiply(word: u64, operands: impl Fn(usize) -> Operands) {
    let shape = ProductShape::of(word).expect("the word is known: contract of `multiply`");
    // SAFETY: as for `multiply`.
    unsafe {
        if shape.a.is_integer() {
            integers(&shape, operands);
        } else {
            reals(&shape, operands);
        }
    }
}

/// Gathers A by rows, B by rows and C by rows from the lanes.
///
/// # Safety
/// As for [`multiply`].
unsafe fn gather<T: Copy + Default>(
    shape: &ProductShape,
    operands: &impl Fn(usize) -> Operands,
    number: impl Fn(ElementType, u64) -> T,
) -> [Vec<T>; 3] {
    let mut a = vec![T::default(); shape.m * shape.k];
    let mut b = vec![T::default(); shape.k * shape.n];
    let mut c = vec![T::default(); shape.m * shape.n];
    let (of_a, of_b, of_c) = (shape.a(), shape.b(), shape.sum(shape.c));
    for lane in 0..32 {
        let start = operands(lane);
        if start.is_null() {
            continue;
        }
        // SAFETY: the three lie one behind the other: contract of `multiply`.
        unsafe {
            of_a.read(lane, start, |(row, column), bits| {
                a[row * shape.k + column] = number(shape.a, bits);
            });
            let start = start.add(of_a.bytes());
            of_b.read(lane, start, |(column, row), bits| {
                b[row * shape.n + column] = number(shape.b, bits);
            });
            let start = start.add(of_b.bytes());
            of_c.read(lane, start, |(row, column), bits| {
                c[row * shape.n + column] = number(shape.c, bits);
            });
        }
    }
    [a, b, c]
}

/// Hands D to the lanes.
///
/// # Safety
/// As for [`multiply`].
unsafe fn scatter(shape: &ProductShape, operands: &impl Fn(usize) -> Operands, bits: impl Fn(usize) -> u64) {
    let fragment = shape.sum(shape.d);
    for lane in 0..32 {
        let start = operands(lane);
        if !start.is_null() {
            // SAFETY: D's registers have room at the start: contract of `multiply`.
            unsafe { fragment.write(lane, start, |(row, column)| bits(row * shape.n + column)) };
        }
    }
}

/// # Safety
/// As for [`multiply`].
unsafe fn reals(shape: &ProductShape, operands: impl Fn(usize) -> Operands) {
    // SAFETY: contract of `reals`.
    let [a, b, mut sums] = unsafe { gather(shape, &operands, ElementType::real) };
    let fused = shape.a == ElementType::F64;
    for (of_a, sums) in a.chunks(shape.k).zip(sums.chunks_mut(shape.n)) {
        for (a, of_b) in of_a.iter().zip(b.chunks(shape.n)) {
            for (sum, b) in sums.iter_mut().zip(of_b) {
                *sum = if fused { a.mul_add(*b, *sum) } else { *sum + a * b };
            }
        }
    }
    // SAFETY: contract of `reals`.
    unsafe { scatter(shape, &operands, |at| shape.d.rounded(sums[at])) };
}

/// # Safety
/// As for [`multiply`].
unsafe fn integers(shape: &ProductShape, operands: impl Fn(usize) -> Operands) {
    // SAFETY: contract of `integers`.
    let [a, b, mut sums] = unsafe { gather(shape, &operands, ElementType::integer) };
    let times = |a: i64, b: i64| match (shape.a, shape.and) {
        (ElementType::B1, false) => a ^ b,
        _ => a * b,
    };
    for (of_a, sums) in a.chunks(shape.k).zip(sums.chunks_mut(shape.n)) {
        for (a, of_b) in of_a.iter().zip(b.chunks(shape.n)) {
            for (sum, b) in sums.iter_mut().zip(of_b) {
                *sum += times(*a, *b);
            }
        }
    }
    let fitted = |sum: i64| match shape.saturates {
        true => sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u64,
        false => sum as u64,
    };
    // SAFETY: contract of `integers`.
    unsafe { scatter(shape, &operands, |at| fitted(sums[at])) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word((m, n, k): (u64, u64, u64), types: [u64; 4], flags: u64) -> u64 {
        let types = types
            .iter()
            .enumerate()
            .fold(0, |all, (at, ty)| all | ty << (32 + 4 * at));
        m | n << 8 | k << 16 | types | flags << 48
    }

    const F16_F32: [u64; 4] = [0, 0, 3, 3];

    #[test]
    fn words_that_are_no_product_are_not_known() {
        assert!(is_known(word((16, 8, 16), F16_F32, 0)));
        assert!(is_known(word((8, 8, 4), [4; 4], 0)));
        assert!(!is_known(word((16, 8, 15), F16_F32, 0)));
        assert!(!is_known(word((16, 8, 16), [0, 0, 10, 10], 0)));
        assert!(!is_known(word((16, 8, 16), [15, 0, 3, 3], 0)));
        assert!(!is_known(word((16, 8, 32), [5, 5, 5, 5], 0)));
    }

    #[test]
    fn time_is_by_the_rate_of_the_type() {
        assert_eq!(instructions(word((16, 8, 16), F16_F32, 0)), 4);
        assert_eq!(instructions(word((16, 8, 8), [2, 2, 3, 3], 0)), 4);
        assert_eq!(instructions(word((16, 8, 32), [5, 5, 10, 10], 0)), 4);
        assert_eq!(instructions(word((8, 8, 4), [4; 4], 0)), 8);
    }

    /// A whole warp multiplies integers: A has its row everywhere, B its column plus one, C 1000.
    #[test]
    fn a_warp_multiplies() {
        let word = word((16, 8, 32), [6, 5, 10, 10], 0);
        let shape = ProductShape::of(word).unwrap();
        let mut lanes = vec![[0u8; 40]; 32];
        for (lane, room) in lanes.iter_mut().enumerate() {
            let (a, rest) = room.split_at_mut(16);
            let (b, c) = rest.split_at_mut(8);
            for (element, value) in a.iter_mut().enumerate() {
                *value = shape.a().place(lane, element).0 as u8;
            }
            for (element, value) in b.iter_mut().enumerate() {
                *value = shape.b().place(lane, element).0 as u8 + 1;
            }
            for value in c.chunks_mut(4) {
                value.copy_from_slice(&1000i32.to_ne_bytes());
            }
        }
        let places: Vec<Operands> = lanes.iter_mut().map(|room| room.as_mut_ptr()).collect();
        // SAFETY: every lane has room for its registers.
        unsafe { multiply(word, |lane| places[lane]) };
        for (lane, room) in lanes.iter().enumerate() {
            for element in 0..4 {
                let (row, column) = shape.sum(shape.d).place(lane, element);
                let found = i32::from_ne_bytes(room[4 * element..][..4].try_into().unwrap());
                assert_eq!(found, 1000 + 32 * row as i32 * (column as i32 + 1));
            }
        }
    }
}

//! Textures and surfaces, as kernels read and write them.
//!
//! A texture object names texels ([`texels`]) and a sampler: what a coordinate outside reads ([`address`]),
//! whether neighbours are mixed, and as what elements are read ([`sample`]). A surface object names texels
//! alone; kernels read and write its bytes ([`surface`]). [`objects`] has those of each device.
//!
//! CUDA's programming guide states the arithmetic ("Texture Fetching"), and this follows it; [`weights`] says
//! what else is known of it.

pub mod address;
pub mod cube;
pub mod objects;
pub mod sample;
pub mod surface;
pub mod texels;
pub mod weights;

/// The shape that a kernel's instruction asks for, by the number that generated code passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Coordinates, without the layer.
    pub dimensions: usize,
    /// Whether there is a layer.
    pub layered: bool,
    /// Whether the coordinates are a direction.
    pub cube: bool,
}

impl Geometry {
    /// As `softgpu_image.h` numbers them.
    pub fn of(number: u32) -> Option<Geometry> {
        let (dimensions, layered, cube) = match number {
            0 => (1, false, false),
            1 => (2, false, false),
            2 => (3, false, false),
            3 => (1, true, false),
            4 => (2, true, false),
            5 => (3, false, true),
            6 => (3, true, true),
            _ => return None,
        };
        Some(Geometry {
            dimensions,
            layered,
            cube,
        })
    }
}

/// In words that follow "is" or "reads": `1-D`, `layered 2-D`, `cubemap`.
impl std::fmt::Display for Geometry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layered = if self.layered { "layered " } else { "" };
        match self.cube {
            true => write!(f, "{layered}cubemap"),
            false => write!(f, "{layered}{}-D", self.dimensions),
        }
    }
}

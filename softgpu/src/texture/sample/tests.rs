//! Values that follow from CUDA's programming guide.
use mgb_abi::texture::{ADDRESS_BORDER, ADDRESS_CLAMP, ADDRESS_MIRROR, ADDRESS_WRAP};

use super::*;

const NORMALIZED: u32 = FLAG_NORMALIZED_COORDINATES;

/// A texture of what `values` holds, in rows of the width.
fn texture<T>(
    values: &[T],
    kind: ChannelKind,
    channels: usize,
    size: [usize; 3],
    wanted: DriverTextureDesc,
) -> Texture {
    let format = Format {
        kind,
        bits: size_of::<T>() * 8,
        channels,
    };
    let pitch = size[0] * format.bytes();
    assert_eq!(values.len(), size.iter().product::<usize>() * channels);
    Texture {
        texels: Texels {
            base: values.as_ptr() as usize,
            format,
            size,
            pitch,
            slice: pitch * size[1],
            layered: false,
            cube: false,
        },
        sampler: Sampler::of(&wanted, format),
        is_linear: false,
    }
}

fn settings(address: u32, filter: u32, flags: u32) -> DriverTextureDesc {
    DriverTextureDesc {
        address: [address; 3],
        filter,
        flags,
        border: [9.0, 8.0, 7.0, 6.0],
        ..Default::default()
    }
}

/// The first channel at coordinates, by an instruction for as many dimensions.
fn sample(texture: &Texture, coordinates: &[f32]) -> f32 {
    let mut at = [0; 4];
    for (to, from) in at.iter_mut().zip(coordinates) {
        *to = from.to_bits();
    }
    let geometry = Geometry::of(coordinates.len() as u32 - 1).unwrap();
    // SAFETY: the values of the test outlive its textures.
    let read = unsafe { texture.read(geometry, Fetch::Sample, at) };
    f32::from_bits(read.unwrap()[0])
}

#[test]
fn the_nearest_texel_by_every_mode() {
    let values = [10.0f32, 20.0, 30.0, 40.0];
    let with = |address, flags| {
        texture(
            &values,
            ChannelKind::Float,
            1,
            [4, 1, 1],
            settings(address, 0, flags),
        )
    };
    for (address, flags, at, wanted) in [
        (ADDRESS_CLAMP, 0, -1.0, 10.0),
        (ADDRESS_CLAMP, 0, 2.9, 30.0),
        (ADDRESS_CLAMP, 0, 4.0, 40.0),
        (ADDRESS_WRAP, 0, 4.0, 40.0),
        (ADDRESS_BORDER, 0, 4.0, 9.0),
        (ADDRESS_BORDER, 0, 3.99, 40.0),
        (ADDRESS_WRAP, NORMALIZED, 1.3, 20.0),
        (ADDRESS_WRAP, NORMALIZED, -0.1, 40.0),
        (ADDRESS_MIRROR, NORMALIZED, 1.3, 30.0),
        (ADDRESS_MIRROR, NORMALIZED, -0.3, 20.0),
        (ADDRESS_CLAMP, NORMALIZED, 1.0, 40.0),
        (ADDRESS_BORDER, NORMALIZED, 1.0, 9.0),
    ] {
        let found = sample(&with(address, flags), &[at]);
        assert_eq!(found, wanted, "mode {address}, flags {flags}, at {at}");
    }
}

#[test]
fn neighbours_are_mixed_by_their_distance() {
    let values = [0.0f32, 256.0, 512.0, 1024.0];
    let line = texture(
        &values,
        ChannelKind::Float,
        1,
        [4, 1, 1],
        settings(ADDRESS_CLAMP, 1, 0),
    );
    for (at, wanted) in [
        (0.0, 0.0),
        (0.5, 0.0),
        (1.0, 128.0),
        (1.5, 256.0),
        (0.5 + 3.0 / 256.0, 3.0),
        // Not a step: the nearest one counts.
        (0.5 + 3.4 / 256.0, 3.0),
        (0.5 + 3.6 / 256.0, 4.0),
        (3.75, 1024.0),
    ] {
        assert_eq!(sample(&line, &[at]), wanted, "at {at}");
    }
    let border = texture(
        &values,
        ChannelKind::Float,
        1,
        [4, 1, 1],
        settings(ADDRESS_BORDER, 1, 0),
    );
    // Half of the border beside the line, half of what the line gives.
    assert_eq!(sample(&border, &[4.0]), ((1024.0 + 9.0) / 2.0 + 9.0) / 2.0);
    let wrapped = texture(
        &values,
        ChannelKind::Float,
        1,
        [4, 1, 1],
        settings(ADDRESS_WRAP, 1, NORMALIZED),
    );
    assert_eq!(sample(&wrapped, &[1.0]), 512.0);
}

#[test]
fn planes_and_boxes_are_mixed_in_every_dimension() {
    let values: Vec<f32> = (0..24).map(|at| (at * at) as f32).collect();
    let of = |x: usize, y: usize, z: usize| values[z * 6 + y * 3 + x];
    let solid = texture(
        &values,
        ChannelKind::Float,
        1,
        [3, 2, 4],
        settings(ADDRESS_CLAMP, 1, 0),
    );
    assert_eq!(sample(&solid, &[1.5, 1.5, 2.5]), of(1, 1, 2));
    let corners = [of(0, 0, 1), of(1, 0, 1), of(0, 1, 1), of(1, 1, 1)];
    assert_eq!(
        sample(&solid, &[1.0, 1.0, 1.5]),
        corners.iter().sum::<f32>() / 4.0
    );
    let expected = 0.75 * of(2, 0, 2) + 0.25 * of(2, 0, 3);
    assert_eq!(sample(&solid, &[2.5, 0.5, 2.75]), expected);
    let plane = texture(
        &values[..6],
        ChannelKind::Float,
        1,
        [3, 2, 1],
        settings(ADDRESS_CLAMP, 1, 0),
    );
    let expected =
        0.75 * (0.5 * of(0, 0, 0) + 0.5 * of(1, 0, 0)) + 0.25 * (0.5 * of(0, 1, 0) + 0.5 * of(1, 1, 0));
    assert_eq!(sample(&plane, &[1.0, 0.75]), expected);
}

#[test]
fn integers_are_promoted_or_left_alone() {
    let promoted = |values: &[u8]| {
        let texture = texture(
            values,
            ChannelKind::Unsigned,
            1,
            [2, 1, 1],
            settings(ADDRESS_CLAMP, 0, 0),
        );
        [sample(&texture, &[0.5]), sample(&texture, &[1.5])]
    };
    assert_eq!(promoted(&[255, 51]), [1.0, 0.2]);
    let signed = texture(
        &[-128i8, -127, 127, 0],
        ChannelKind::Signed,
        1,
        [4, 1, 1],
        settings(ADDRESS_CLAMP, 0, 0),
    );
    let found = [0.5, 1.5, 2.5, 3.5].map(|at| sample(&signed, &[at]));
    assert_eq!(found, [-1.0, -1.0, 1.0, 0.0]);
    let words = texture(
        &[i16::MIN, 32767],
        ChannelKind::Signed,
        1,
        [2, 1, 1],
        settings(ADDRESS_CLAMP, 1, 0),
    );
    assert_eq!(sample(&words, &[1.0]), 0.0);
    for (flags, wanted) in [(FLAG_READ_AS_INTEGER, 51u32), (0, 0.2f32.to_bits())] {
        let plain = texture(
            &[51u8],
            ChannelKind::Unsigned,
            1,
            [1, 1, 1],
            settings(ADDRESS_CLAMP, 0, flags),
        );
        assert_eq!(sample(&plain, &[0.0]).to_bits(), wanted);
    }
    // 32 bits are never promoted, and what is no float is not mixed.
    let wide = texture(
        &[7u32, 9],
        ChannelKind::Unsigned,
        1,
        [2, 1, 1],
        settings(ADDRESS_CLAMP, 1, 0),
    );
    assert_eq!(sample(&wide, &[1.0]).to_bits(), 9);
}

#[test]
fn srgb_is_decoded_but_for_opacity() {
    let values = [0u8, 10, 128, 128];
    let decoded = texture(
        &values,
        ChannelKind::Unsigned,
        4,
        [1, 1, 1],
        settings(ADDRESS_CLAMP, 0, FLAG_SRGB),
    );
    // SAFETY: the values outlive the texture.
    let read = unsafe { decoded.read(Geometry::of(0).unwrap(), Fetch::Sample, [0; 4]) };
    let [r, g, b, a] = read.unwrap().map(f32::from_bits);
    assert_eq!((r, a), (0.0, 128.0 / 255.0));
    assert!(
        (g - 0.003_035).abs() < 1e-6 && (b - 0.215_861).abs() < 1e-6,
        "{g} {b}"
    );
}

#[test]
fn elements_are_read_by_number_and_are_zero_outside() {
    let values = [3u16, 5, 7];
    let mut line = texture(
        &values,
        ChannelKind::Unsigned,
        1,
        [3, 1, 1],
        settings(ADDRESS_CLAMP, 0, FLAG_READ_AS_INTEGER),
    );
    line.is_linear = true;
    let flat = Geometry::of(0).unwrap();
    // SAFETY: the values outlive the texture.
    let read = |at: i32| unsafe { line.read(flat, Fetch::Element, [at as u32, 0, 0, 0]) }.unwrap();
    assert_eq!([read(0), read(2)], [[3, 0, 0, 1], [7, 0, 0, 1]]);
    assert_eq!([read(3), read(-1)], [[0; 4]; 2]);
    // SAFETY: nothing is read.
    let refused = unsafe { line.read(flat, Fetch::Sample, [0; 4]) };
    assert!(refused.unwrap_err().contains("tex1Dfetch"));
    // SAFETY: nothing is read.
    let refused = unsafe { line.read(Geometry::of(4).unwrap(), Fetch::Element, [0; 4]) };
    assert_eq!(
        refused.unwrap_err(),
        "has 3 x 1 x 1 texels, and the instruction is for layered 2-D textures"
    );
}

#[test]
fn gathering_goes_around_from_the_lower_left() {
    let values: Vec<f32> = (0..12).map(|at| at as f32).collect();
    let plane = texture(
        &values,
        ChannelKind::Float,
        2,
        [3, 2, 1],
        settings(ADDRESS_CLAMP, 0, 0),
    );
    let at = [1.0f32.to_bits(), 1.0f32.to_bits(), 0, 0];
    // SAFETY: the values outlive the texture.
    let read = unsafe { plane.read(Geometry::of(1).unwrap(), Fetch::Gather(1), at) };
    assert_eq!(read.unwrap().map(f32::from_bits), [7.0, 9.0, 3.0, 1.0]);
}

#[test]
fn layers_are_chosen_and_not_mixed() {
    let values = [1.0f32, 2.0, 30.0, 40.0];
    let mut layers = texture(
        &values,
        ChannelKind::Float,
        1,
        [2, 1, 2],
        settings(ADDRESS_CLAMP, 1, 0),
    );
    layers.texels.layered = true;
    let read = |layer: u32, x: f32| {
        // SAFETY: the values outlive the texture.
        let read = unsafe {
            layers.read(
                Geometry::of(3).unwrap(),
                Fetch::Sample,
                [layer, x.to_bits(), 0, 0],
            )
        };
        f32::from_bits(read.unwrap()[0])
    };
    assert_eq!([read(0, 1.0), read(1, 1.0), read(7, 1.5)], [1.5, 35.0, 40.0]);
}

#[test]
fn a_direction_reads_the_face_it_points_to() {
    let values: Vec<f32> = (0..24).map(|at| at as f32).collect();
    let mut cube = texture(
        &values,
        ChannelKind::Float,
        1,
        [2, 2, 6],
        settings(ADDRESS_CLAMP, 0, NORMALIZED),
    );
    (cube.texels.layered, cube.texels.cube) = (true, true);
    let read = |direction: [f32; 3]| {
        let [x, y, z] = direction.map(f32::to_bits);
        // SAFETY: the values outlive the texture.
        let read = unsafe { cube.read(Geometry::of(5).unwrap(), Fetch::Sample, [x, y, z, z]) };
        f32::from_bits(read.unwrap()[0])
    };
    assert_eq!(read([1.0, 0.5, -0.5]), 1.0);
    assert_eq!(read([-1.0, -0.5, -0.5]), 6.0);
    assert_eq!(read([0.5, 0.5, 1.0]), 17.0);
}

/// As an H100 does it: see `tests/conformance/recorded/textures.txt`.
#[test]
fn mixtures_of_halves_are_halves() {
    for (value, expected) in [
        (426.8125, 426.75),
        (462.125, 462.25),
        (-462.125, -462.25),
        (1024.4, 1024.0),
        (0.0, 0.0),
        (3.1 / f64::from(1 << 24), 3.0 / (1 << 24) as f32),
    ] {
        assert_eq!(half(value), expected, "{value}");
    }
    assert!(half(f64::NAN).is_nan());
    assert_eq!(half(f64::INFINITY), f32::INFINITY);
}

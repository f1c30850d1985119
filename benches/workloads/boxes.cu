// Particles in boxes: each feels those of its own and of the 26 boxes around it, by a potential that falls off quickly.
//
//   boxes SIZE [--steps N]     steps: evaluations of all forces, with a move of all particles between them; default 1
//
// Host: positions and charges, a random number each, the boxes' neighbours; between steps, moving the particles.
// GPU, in each step: positions in, forces, forces out.
// Device memory: 7,308 bytes a box (100 particles of 72 bytes: position, charge, force; 27 neighbours).

#include "workload.h"

constexpr unsigned kParticles = 100, kThreads = 128, kNeighbours = 27;
constexpr double kDecay = 0.5; // of the potential, over squared distances

// A potential, and a vector.
struct alignas(32) Four {
  double v, x, y, z;
};

// Of a box and itself: boxes' numbers, the box itself first, then `kNobody` where the space ends.
constexpr unsigned kNobody = ~0u;

__global__ void forces(const unsigned *neighbours, const Four *positions, const double *charges, Four *result) {
  __shared__ Four others[kParticles];
  __shared__ double their_charges[kParticles];
  size_t box = blockIdx.x;
  Four here = {}, sum = {};
  if (threadIdx.x < kParticles)
    here = positions[box * kParticles + threadIdx.x];
  for (unsigned k = 0; k < kNeighbours; k++) {
    unsigned neighbour = neighbours[box * kNeighbours + k];
    if (neighbour == kNobody)
      break;
    if (threadIdx.x < kParticles) {
      others[threadIdx.x] = positions[size_t(neighbour) * kParticles + threadIdx.x];
      their_charges[threadIdx.x] = charges[size_t(neighbour) * kParticles + threadIdx.x];
    }
    __syncthreads();
    if (threadIdx.x < kParticles)
      for (unsigned other = 0; other < kParticles; other++) {
        Four there = others[other];
        double dx = here.x - there.x, dy = here.y - there.y, dz = here.z - there.z;
        double potential = their_charges[other] * exp(-kDecay * (dx * dx + dy * dy + dz * dz));
        sum.v += potential;
        sum.x += 2 * kDecay * potential * dx;
        sum.y += 2 * kDecay * potential * dy;
        sum.z += 2 * kDecay * potential * dz;
      }
    __syncthreads();
  }
  if (threadIdx.x < kParticles)
    result[box * kParticles + threadIdx.x] = sum;
}

// A number in 0.1, 0.2 ... 1.0: where in a box of side 1, or which charge.
static double tenths() { return (rand() % 10 + 1) / 10.0; }

// The same for one particle, on the host.
static Four force_on(size_t particle, const unsigned *neighbours, const Four *positions, const double *charges) {
  Four here = positions[particle], sum = {};
  for (unsigned k = 0; k < kNeighbours; k++) {
    unsigned neighbour = neighbours[particle / kParticles * kNeighbours + k];
    for (size_t other = size_t(neighbour) * kParticles; neighbour != kNobody && other < size_t(neighbour + 1) * kParticles;
         other++) {
      double dx = here.x - positions[other].x, dy = here.y - positions[other].y, dz = here.z - positions[other].z;
      double potential = charges[other] * exp(-kDecay * (dx * dx + dy * dy + dz * dz));
      sum.v += potential;
      sum.x += 2 * kDecay * potential * dx;
      sum.y += 2 * kDecay * potential * dy;
      sum.z += 2 * kDecay * potential * dz;
    }
  }
  return sum;
}

// A box's neighbours, itself first, in a space `side` boxes wide and deep, whose last layer may be incomplete.
static void find_neighbours(unsigned *list, size_t box, size_t boxes, long side) {
  long x = long(box) % side, y = long(box) / side % side, z = long(box) / (side * side);
  unsigned found = 0;
  list[found++] = unsigned(box);
  for (long dz = -1; dz <= 1; dz++)
    for (long dy = -1; dy <= 1; dy++)
      for (long dx = -1; dx <= 1; dx++) {
        bool inside = x + dx >= 0 && x + dx < side && y + dy >= 0 && y + dy < side && z + dz >= 0;
        long number = ((z + dz) * side + y + dy) * side + x + dx;
        if (inside && number < long(boxes) && number != long(box))
          list[found++] = unsigned(number);
      }
  while (found < kNeighbours)
    list[found++] = kNobody;
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "boxes", 1);
  Profile profile;
  const size_t boxes = options.bytes / (kParticles * (2 * sizeof(Four) + sizeof(double)) + kNeighbours * sizeof(unsigned));
  require(options, boxes >= 1);
  const size_t side = size_t(cbrt(double(boxes)) + 0.5), particles = boxes * kParticles;

  HostArray<unsigned> neighbours(boxes * kNeighbours);
  for (size_t box = 0; box < boxes; box++)
    find_neighbours(&neighbours[box * kNeighbours], box, boxes, long(side));
  HostArray<Four> positions(particles), result(particles);
  HostArray<double> charges(particles);
  for (size_t i = 0; i < particles; i++) {
    size_t box = i / kParticles;
    positions[i].v = 0;
    positions[i].x = double(box % side) + tenths();
    positions[i].y = double(box / side % side) + tenths();
    positions[i].z = double(box / (side * side)) + tenths();
  }
  for (size_t i = 0; i < particles; i++)
    charges[i] = tenths();
  for (size_t i = 0; i < particles; i++)
    result[i] = Four{};

  unsigned *d_neighbours;
  Four *d_positions, *d_result;
  double *d_charges;
  profile.start();
  CHECK(cudaMalloc(&d_neighbours, boxes * kNeighbours * sizeof(unsigned)));
  profile.memory();
  CHECK(cudaMalloc(&d_positions, particles * sizeof(Four)));
  CHECK(cudaMalloc(&d_charges, particles * sizeof(double)));
  CHECK(cudaMalloc(&d_result, particles * sizeof(Four)));
  profile.copy_in(boxes * kNeighbours * sizeof(unsigned) + particles * sizeof(double));
  CHECK(cudaMemcpy(d_neighbours, neighbours.data(), boxes * kNeighbours * sizeof(unsigned), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_charges, charges.data(), particles * sizeof(double), cudaMemcpyHostToDevice));

  Verdict verdict;
  Checksum checksum;
  for (size_t step = 0; step < options.steps; step++) {
    profile.copy_in(particles * sizeof(Four));
    CHECK(cudaMemcpy(d_positions, positions.data(), particles * sizeof(Four), cudaMemcpyHostToDevice));
    profile.kernels();
    forces<<<unsigned(boxes), kThreads>>>(d_neighbours, d_positions, d_charges, d_result);
    CHECK_LAUNCH(forces);
    CHECK(cudaDeviceSynchronize());
    profile.copy_out(particles * sizeof(Four));
    CHECK(cudaMemcpy(result.data(), d_result, particles * sizeof(Four), cudaMemcpyDeviceToHost));

    profile.host();
    for (size_t k = 0; k < 500; k++) {
      size_t particle = k == 0 ? 0 : k == 1 ? particles - 1 : random_below(particles);
      Four expected = force_on(particle, neighbours.data(), positions.data(), charges.data());
      verdict.expect("the potential at particle", particle, result[particle].v, expected.v, 1e-9);
      verdict.expect("the force in x on particle", particle, result[particle].x, expected.x, 1e-9);
      verdict.expect("the force in y on particle", particle, result[particle].y, expected.y, 1e-9);
      verdict.expect("the force in z on particle", particle, result[particle].z, expected.z, 1e-9);
      checksum.add_rounded(result[particle].v, 1e-5);
    }
    // Forces are some tens, boxes' sides 1: a particle stays near its box.
    for (size_t i = 0; i < particles && step + 1 < options.steps; i++) {
      positions[i].x += 1e-4 * result[i].x;
      positions[i].y += 1e-4 * result[i].y;
      positions[i].z += 1e-4 * result[i].z;
    }
  }
  profile.memory();
  CHECK(cudaFree(d_neighbours));
  CHECK(cudaFree(d_positions));
  CHECK(cudaFree(d_charges));
  CHECK(cudaFree(d_result));
  profile.host();
  return verdict.finish(options, profile, checksum);
}

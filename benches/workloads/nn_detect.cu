// A convolutional network that finds objects in large images, one image at a time.
//
//   nn_detect SIZE [--steps N]     steps: images, default 60
//
// Host: the weights, a random number each; each image; from the network's cells those that see something, and of those that
// overlap the best (non-maximum suppression), drawn into the image and written as text.
// GPU, for each image: pixels in, two convolutions with pooling, a score and a frame for each cell of 4 x 4 pixels, those out.
// Device memory: 280.25 bytes a pixel of an image, 20,800 for the weights.

#include "network.h"
#include <algorithm>

constexpr size_t kFirst = 16, kSecond = 32, kOutputs = 5; // score, and the frame's left, top, right, bottom
constexpr size_t kWeights = 4 * (27 * kFirst + 9 * kFirst * kSecond + kOutputs * kSecond);
// By allocation: maps after one pooling have a quarter of the pixels, after two a sixteenth.
constexpr double kPerPixel = 3 + 4 * (3.0 + 9 * kFirst / 4.0 + kFirst + kFirst / 4.0 + kSecond / 4.0 + kSecond / 16.0 +
                                      kOutputs / 16.0);

struct Frame {
  float score;
  long left, top, right, bottom; // pixels
};

// A few of the bytes that a call of rand() gives make a pixel each; rectangles lie on them.
static void make_image(unsigned char *pixels, size_t height, size_t width) {
  for (size_t i = 0; i < 3 * height * width; i += 3) {
    unsigned bits = unsigned(rand());
    for (size_t k = i; k < i + 3; k++, bits >>= 8)
      pixels[k] = (unsigned char)(96 + bits % 64);
  }
  for (size_t object = 0; object < 200; object++) {
    size_t top = random_below(height), left = random_below(width), side = 8 + random_below(56), shade = random_below(256);
    for (size_t row = top; row < std::min(height, top + side); row++)
      memset(pixels + 3 * (row * width + left), int(shade), 3 * std::min(side, width - left));
  }
}

// Of frames that share more than a third of what they cover together only the one with the best score.
static std::vector<Frame> best_of(std::vector<Frame> frames) {
  std::sort(frames.begin(), frames.end(), [](const Frame &a, const Frame &b) { return a.score > b.score; });
  std::vector<Frame> kept;
  for (const Frame &frame : frames) {
    bool alone = true;
    for (const Frame &other : kept) {
      long width = std::min(frame.right, other.right) - std::max(frame.left, other.left);
      long height = std::min(frame.bottom, other.bottom) - std::max(frame.top, other.top);
      long shared = width > 0 && height > 0 ? width * height : 0;
      long both = (frame.right - frame.left) * (frame.bottom - frame.top) +
                  (other.right - other.left) * (other.bottom - other.top) - shared;
      alone = alone && 3 * shared <= both;
    }
    if (alone)
      kept.push_back(frame);
  }
  return kept;
}

static void draw(unsigned char *pixels, size_t width, const Frame &frame) {
  for (long col = frame.left; col < frame.right; col++)
    for (long row : {frame.top, frame.bottom - 1})
      memset(pixels + 3 * (size_t(row) * width + size_t(col)), 255, 3);
  for (long row = frame.top; row < frame.bottom; row++)
    for (long col : {frame.left, frame.right - 1})
      memset(pixels + 3 * (size_t(row) * width + size_t(col)), 255, 3);
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "nn_detect", 60);
  Profile profile;
  const double room = double(options.bytes) - kWeights;
  require(options, room >= 64 * 64 * kPerPixel);
  const size_t width = size_t(sqrt(room / kPerPixel)) / 4 * 4, height = size_t(room / kPerPixel / double(width)) / 4 * 4;
  const size_t pixels = height * width, cells = pixels / 16;
  FILE *output = fopen(options.output, "w");
  if (output == nullptr)
    usage_error(options.name, "failed to open for writing", options.output);

  std::vector<float> first = random_weights(27 * kFirst, 27), second = random_weights(9 * kFirst * kSecond, 9 * kFirst),
                     head = random_weights(kOutputs * kSecond, kSecond);
  std::vector<unsigned char> image(3 * pixels);
  std::vector<float> outputs(kOutputs * cells);

  float *d_first, *d_second, *d_head, *d_image, *d_columns, *d_map1, *d_pooled1, *d_map2, *d_pooled2, *d_outputs;
  unsigned char *d_pixels;
  profile.start();
  CHECK(cudaMalloc(&d_first, 27 * kFirst * sizeof(float)));
  profile.memory();
  CHECK(cudaMalloc(&d_second, 9 * kFirst * kSecond * sizeof(float)));
  CHECK(cudaMalloc(&d_head, kOutputs * kSecond * sizeof(float)));
  CHECK(cudaMalloc(&d_pixels, 3 * pixels));
  CHECK(cudaMalloc(&d_image, 3 * pixels * sizeof(float)));
  CHECK(cudaMalloc(&d_columns, 9 * kFirst * pixels / 4 * sizeof(float))); // the second layer's: more than 27 * pixels
  CHECK(cudaMalloc(&d_map1, kFirst * pixels * sizeof(float)));
  CHECK(cudaMalloc(&d_pooled1, kFirst * pixels / 4 * sizeof(float)));
  CHECK(cudaMalloc(&d_map2, kSecond * pixels / 4 * sizeof(float)));
  CHECK(cudaMalloc(&d_pooled2, kSecond * cells * sizeof(float)));
  CHECK(cudaMalloc(&d_outputs, kOutputs * cells * sizeof(float)));
  profile.copy_in(kWeights);
  CHECK(cudaMemcpy(d_first, first.data(), 27 * kFirst * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_second, second.data(), 9 * kFirst * kSecond * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_head, head.data(), kOutputs * kSecond * sizeof(float), cudaMemcpyHostToDevice));

  Verdict verdict;
  Checksum checksum;
  HostStem stem(first, second);
  for (size_t step = 0; step < options.steps; step++) {
    profile.host();
    make_image(image.data(), height, width);
    profile.copy_in(3 * pixels);
    CHECK(cudaMemcpy(d_pixels, image.data(), 3 * pixels, cudaMemcpyHostToDevice));
    profile.kernels();
    normalise<<<blocks_of(pixels), 256>>>(d_pixels, d_image, pixels);
    CHECK_LAUNCH(normalise);
    unfold<<<blocks_of(pixels), 256>>>(d_image, d_columns, 3, 1, height, width);
    CHECK_LAUNCH(unfold);
    multiply<<<tiles_of(kFirst, pixels), dim3(16, 16)>>>(Matrix{d_first, 27, 1}, Matrix{d_columns, pixels, 1}, d_map1, kFirst,
                                                         pixels, 27, 0, 1, true);
    CHECK_LAUNCH(multiply);
    pool<<<blocks_of(kFirst * pixels / 4), 256>>>(d_map1, d_pooled1, kFirst, height, width);
    CHECK_LAUNCH(pool);
    unfold<<<blocks_of(pixels / 4), 256>>>(d_pooled1, d_columns, kFirst, 1, height / 2, width / 2);
    CHECK_LAUNCH(unfold);
    multiply<<<tiles_of(kSecond, pixels / 4), dim3(16, 16)>>>(Matrix{d_second, 9 * kFirst, 1}, Matrix{d_columns, pixels / 4, 1},
                                                              d_map2, kSecond, pixels / 4, 9 * kFirst, 0, 1, true);
    CHECK_LAUNCH(multiply);
    pool<<<blocks_of(kSecond * cells), 256>>>(d_map2, d_pooled2, kSecond, height / 2, width / 2);
    CHECK_LAUNCH(pool);
    multiply<<<tiles_of(kOutputs, cells), dim3(16, 16)>>>(Matrix{d_head, kSecond, 1}, Matrix{d_pooled2, cells, 1}, d_outputs,
                                                          kOutputs, cells, kSecond, 0, 1, false);
    CHECK_LAUNCH(multiply);
    CHECK(cudaDeviceSynchronize());
    profile.copy_out(kOutputs * cells * sizeof(float));
    CHECK(cudaMemcpy(outputs.data(), d_outputs, kOutputs * cells * sizeof(float), cudaMemcpyDeviceToHost));

    profile.host();
    // The network sees 10 x 10 pixels a cell: patches of 24 x 24 around cells are enough to know them by, and at the image's
    // corner they end as it does.
    for (size_t k = 0; k < 8 && (step == 0 || step + 1 == options.steps); k++) {
      size_t row = k == 0 ? 0 : 4 * random_below(height / 4 - 5), col = k == 0 ? 0 : 4 * random_below(width / 4 - 5);
      std::vector<double> maps = stem.run(&image[3 * (row * width + col)], 24, 24, 3 * width);
      size_t cell = k == 0 ? 0 : 2, at = (row / 4 + cell) * (width / 4) + col / 4 + cell; // of the patch, of the image
      for (size_t o = 0; o < kOutputs; o++) {
        double sum = 0;
        for (size_t i = 0; i < kSecond; i++)
          sum += head[o * kSecond + i] * maps[(i * 6 + cell) * 6 + cell];
        verdict.expect("what the network says of cell", at, outputs[o * cells + at], sum, 1e-3);
        checksum.add_rounded(outputs[o * cells + at], 0.1);
      }
    }
    // The best thousandth of all cells, by a threshold.
    std::vector<float> scores(outputs.begin(), outputs.begin() + ptrdiff_t(cells));
    size_t most = std::min(cells / 1000 + 1, size_t(1000));
    std::nth_element(scores.begin(), scores.begin() + ptrdiff_t(most), scores.end(), std::greater<float>());
    std::vector<Frame> frames;
    for (size_t at = 0; at < cells; at++)
      if (outputs[at] > scores[most]) {
        long side[4]; // from the cell's corner to the frame's edges
        for (size_t o = 1; o < kOutputs; o++)
          side[o - 1] = 4 + std::min(60L, long(fabsf(outputs[o * cells + at]) * 16.0f));
        long row = long(at / (width / 4) * 4), col = long(at % (width / 4) * 4);
        frames.push_back({outputs[at], std::max(0L, col - side[0]), std::max(0L, row - side[1]),
                          std::min(long(width), col + side[2]), std::min(long(height), row + side[3])});
      }
    for (const Frame &frame : best_of(frames)) {
      draw(image.data(), width, frame);
      fprintf(output, "%zu: %.2f at (%ld, %ld) to (%ld, %ld)\n", step, double(frame.score), frame.left, frame.top, frame.right,
              frame.bottom);
    }
  }
  profile.memory();
  CHECK(cudaFree(d_first));
  CHECK(cudaFree(d_second));
  CHECK(cudaFree(d_head));
  CHECK(cudaFree(d_pixels));
  CHECK(cudaFree(d_image));
  CHECK(cudaFree(d_columns));
  CHECK(cudaFree(d_map1));
  CHECK(cudaFree(d_pooled1));
  CHECK(cudaFree(d_map2));
  CHECK(cudaFree(d_pooled2));
  CHECK(cudaFree(d_outputs));
  profile.host();
  fclose(output);
  return verdict.finish(options, profile, checksum);
}

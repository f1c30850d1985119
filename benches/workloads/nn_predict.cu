// A convolutional network that classifies batches of small images.
//
//   nn_predict SIZE [--steps N]     steps: batches, default 150
//
// Host: the weights, a random number each; for each batch its images; from its scores each image's class, written as text.
// GPU, for each batch: images in, two convolutions with pooling, one dense layer, scores out.
// Device memory: 556,432 bytes an image of a batch (pixels, maps, columns, scores), 1,715,584 for the weights.

#include "network.h"

constexpr size_t kWidth = 32, kPixels = kWidth * kWidth;
constexpr size_t kFirst = 32, kSecond = 64, kClasses = 100;
constexpr size_t kDense = kSecond * kPixels / 16; // inputs of the dense layer
constexpr size_t kColumns = 9 * kFirst * kPixels / 4; // floats an image: the second layer's are more than the first's
constexpr size_t kPerImage = 3 * kPixels + 4 * (3 * kPixels + kColumns + kFirst * kPixels + kFirst * kPixels / 4 +
                                                kSecond * kPixels / 4 + kDense + kClasses);
constexpr size_t kWeights = 4 * (27 * kFirst + 9 * kFirst * kSecond + kDense * kClasses);

// A few of the bytes that a call of rand() gives make a pixel each.
static void make_images(unsigned char *pixels, size_t count) {
  for (size_t i = 0; i < count; i += 3) {
    unsigned bits = unsigned(rand());
    for (size_t k = i; k < i + 3; k++, bits >>= 8)
      pixels[k] = (unsigned char)bits;
  }
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "nn_predict", 150);
  Profile profile;
  require(options, options.bytes >= kWeights + kPerImage);
  const size_t images = (options.bytes - kWeights) / kPerImage, pixels = images * kPixels;
  FILE *output = fopen(options.output, "w");
  if (output == nullptr)
    usage_error(options.name, "failed to open for writing", options.output);

  std::vector<float> first = random_weights(27 * kFirst, 27), second = random_weights(9 * kFirst * kSecond, 9 * kFirst),
                     dense = random_weights(kDense * kClasses, kDense);
  std::vector<unsigned char> batch(3 * pixels);
  std::vector<float> scores(images * kClasses);

  float *d_first, *d_second, *d_dense, *d_image, *d_columns, *d_map1, *d_pooled1, *d_map2, *d_pooled2, *d_scores;
  unsigned char *d_pixels;
  profile.start();
  CHECK(cudaMalloc(&d_first, 27 * kFirst * sizeof(float)));
  profile.memory();
  CHECK(cudaMalloc(&d_second, 9 * kFirst * kSecond * sizeof(float)));
  CHECK(cudaMalloc(&d_dense, kDense * kClasses * sizeof(float)));
  CHECK(cudaMalloc(&d_pixels, 3 * pixels));
  CHECK(cudaMalloc(&d_image, 3 * pixels * sizeof(float)));
  CHECK(cudaMalloc(&d_columns, images * kColumns * sizeof(float)));
  CHECK(cudaMalloc(&d_map1, kFirst * pixels * sizeof(float)));
  CHECK(cudaMalloc(&d_pooled1, kFirst * pixels / 4 * sizeof(float)));
  CHECK(cudaMalloc(&d_map2, kSecond * pixels / 4 * sizeof(float)));
  CHECK(cudaMalloc(&d_pooled2, images * kDense * sizeof(float)));
  CHECK(cudaMalloc(&d_scores, images * kClasses * sizeof(float)));
  profile.copy_in(kWeights);
  CHECK(cudaMemcpy(d_first, first.data(), 27 * kFirst * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_second, second.data(), 9 * kFirst * kSecond * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_dense, dense.data(), kDense * kClasses * sizeof(float), cudaMemcpyHostToDevice));

  Verdict verdict;
  Checksum checksum;
  HostStem stem(first, second);
  for (size_t step = 0; step < options.steps; step++) {
    profile.host();
    make_images(batch.data(), 3 * pixels);
    profile.copy_in(3 * pixels);
    CHECK(cudaMemcpy(d_pixels, batch.data(), 3 * pixels, cudaMemcpyHostToDevice));
    profile.kernels();
    normalise<<<blocks_of(pixels), 256>>>(d_pixels, d_image, pixels);
    CHECK_LAUNCH(normalise);
    unfold<<<blocks_of(pixels), 256>>>(d_image, d_columns, 3, images, kWidth, kWidth);
    CHECK_LAUNCH(unfold);
    multiply<<<tiles_of(kFirst, pixels), dim3(16, 16)>>>(Matrix{d_first, 27, 1}, Matrix{d_columns, pixels, 1}, d_map1, kFirst,
                                                         pixels, 27, 0, 1, true);
    CHECK_LAUNCH(multiply);
    pool<<<blocks_of(kFirst * pixels / 4), 256>>>(d_map1, d_pooled1, kFirst * images, kWidth, kWidth);
    CHECK_LAUNCH(pool);
    unfold<<<blocks_of(pixels / 4), 256>>>(d_pooled1, d_columns, kFirst, images, kWidth / 2, kWidth / 2);
    CHECK_LAUNCH(unfold);
    multiply<<<tiles_of(kSecond, pixels / 4), dim3(16, 16)>>>(Matrix{d_second, 9 * kFirst, 1}, Matrix{d_columns, pixels / 4, 1},
                                                              d_map2, kSecond, pixels / 4, 9 * kFirst, 0, 1, true);
    CHECK_LAUNCH(multiply);
    pool<<<blocks_of(kSecond * pixels / 16), 256>>>(d_map2, d_pooled2, kSecond * images, kWidth / 2, kWidth / 2);
    CHECK_LAUNCH(pool);
    // The dense layer's inputs lie as [channel][image][pixel]: a product for each channel, summed up.
    const size_t part = kPixels / 16;
    for (size_t channel = 0; channel < kSecond; channel++) {
      multiply<<<tiles_of(images, kClasses), dim3(16, 16)>>>(Matrix{d_pooled2 + channel * images * part, part, 1},
                                                             Matrix{d_dense + channel * part * kClasses, kClasses, 1}, d_scores,
                                                             images, kClasses, part, channel == 0 ? 0.0f : 1.0f, 1, false);
      CHECK_LAUNCH(multiply);
    }
    CHECK(cudaDeviceSynchronize());
    profile.copy_out(images * kClasses * sizeof(float));
    CHECK(cudaMemcpy(scores.data(), d_scores, images * kClasses * sizeof(float), cudaMemcpyDeviceToHost));

    profile.host();
    for (size_t image = 0; image < images; image++) {
      size_t best = 0;
      double sum = 0;
      const float *own = &scores[image * kClasses];
      for (size_t c = 0; c < kClasses; c++)
        best = own[c] > own[best] ? c : best;
      for (size_t c = 0; c < kClasses; c++)
        sum += expf(own[c] - own[best]);
      fprintf(output, "%zu: class %zu, %.1f %%\n", step * images + image, best, 100 / sum);
    }
    // Two images of the first and of the last batch, from pixels to scores.
    for (size_t image : {size_t(0), images - 1}) {
      if (step != 0 && step + 1 != options.steps)
        break;
      std::vector<double> maps = stem.run(&batch[3 * image * kPixels], kWidth, kWidth, 3 * kWidth);
      for (size_t c = 0; c < kClasses; c++) {
        double sum = 0;
        for (size_t i = 0; i < kDense; i++)
          sum += maps[i] * dense[i * kClasses + c];
        verdict.expect("the score of class", c, scores[image * kClasses + c], sum, 1e-3);
        checksum.add_rounded(scores[image * kClasses + c], 0.1);
      }
    }
  }
  profile.memory();
  CHECK(cudaFree(d_first));
  CHECK(cudaFree(d_second));
  CHECK(cudaFree(d_dense));
  CHECK(cudaFree(d_pixels));
  CHECK(cudaFree(d_image));
  CHECK(cudaFree(d_columns));
  CHECK(cudaFree(d_map1));
  CHECK(cudaFree(d_pooled1));
  CHECK(cudaFree(d_map2));
  CHECK(cudaFree(d_pooled2));
  CHECK(cudaFree(d_scores));
  profile.host();
  fclose(output);
  return verdict.finish(options, profile, checksum);
}

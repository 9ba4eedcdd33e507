#include "src/model/sample_lengths.h"

namespace stepcast::model {

double MeanLength(const SampleLengths& lengths) {
  double samples = 0, tokens = 0;
  for (const SampleLength& length : lengths) {
    samples += length.weight;
    tokens += length.weight * static_cast<double>(length.tokens);
  }
  return tokens / samples;
}

double MeanLengthOfTokens(const SampleLengths& lengths) {
  double tokens = 0, squares = 0;
  for (const SampleLength& length : lengths) {
    const double own = length.weight * static_cast<double>(length.tokens);
    tokens += own;
    squares += own * static_cast<double>(length.tokens);
  }
  return squares / tokens;
}

}  // namespace stepcast::model

#pragma once

#include <compare>
#include <cstdint>
#include <vector>

// A histogram of sample lengths.
namespace stepcast::model {

struct SampleLength {
  std::int64_t tokens = 0;
  double weight = 1;  // relative number of samples of this length; above 0
  friend auto operator<=>(const SampleLength&, const SampleLength&) = default;
};
using SampleLengths = std::vector<SampleLength>;  // in ascending order; no length occurs twice

// Returns the length in tokens of an average sample.
double MeanLength(const SampleLengths& lengths);
// Returns the average over all tokens of the length of the token's sample, in tokens. If all
// samples had this length, the number of token pairs would be the same.
double MeanLengthOfTokens(const SampleLengths& lengths);

}  // namespace stepcast::model

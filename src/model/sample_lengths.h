#pragma once

#include <compare>
#include <cstdint>
#include <vector>

// How long samples are: a histogram of lengths.
namespace stepcast::model {

struct SampleLength {
  std::int64_t tokens = 0;
  double weight = 1;  // of the samples, beside the other weights; above 0
  friend auto operator<=>(const SampleLength&, const SampleLength&) = default;
};
using SampleLengths = std::vector<SampleLength>;  // shortest first, each length once

// Tokens of a sample, on average over samples.
double MeanLength(const SampleLengths& lengths);
// Tokens of the sample that a token is of, on average over tokens: as many pairs of tokens of one
// sample exist as if all samples were so long.
double MeanLengthOfTokens(const SampleLengths& lengths);

}  // namespace stepcast::model

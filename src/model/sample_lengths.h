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
using SampleLengths = std::vector<SampleLength>;  // shortest first, each length once

// Mean length of a sample, averaged over samples.
double MeanLength(const SampleLengths& lengths);
// Mean length of the sample that a token belongs to, averaged over tokens. The number of token
// pairs within samples is the same as if all samples had this length.
double MeanLengthOfTokens(const SampleLengths& lengths);

}  // namespace stepcast::model

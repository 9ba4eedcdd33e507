#pragma once

#include <cstdint>

namespace stepcast::parallel {

// Where the vocabulary's layers of a pipeline are, and how the stages agree on the output layer's
// (Yeung et al. 2024, arXiv 2411.05288).
enum class Vocabulary : std::uint8_t {
  kEnds,        // the input layer on the first stage, the output layer on the last one
  kVocab1,      // shared out, two barriers: sums of S, then gradients of T (Algorithm 1)
  kVocab2,      // shared out, one barrier: sums and gradients of S (Algorithm 2)
  kInterlaced,  // shared out as tensor parallelism does it: all stages together, each waits
                // (nnScaler)
};

inline constexpr Vocabulary kVocabularies[] = {Vocabulary::kEnds, Vocabulary::kVocab1,
                                               Vocabulary::kVocab2, Vocabulary::kInterlaced};

constexpr const char* Name(Vocabulary vocabulary) {
  switch (vocabulary) {
    case Vocabulary::kEnds:
      return "ends";
    case Vocabulary::kVocab1:
      return "vocab_1";
    case Vocabulary::kVocab2:
      return "vocab_2";
    case Vocabulary::kInterlaced:
      return "interlaced";
  }
  return "";
}

}  // namespace stepcast::parallel

#pragma once

#include <cstdint>

// Inputs and predictions other than words, and the encoder whose output is read by a decoder's
// blocks.
namespace stepcast::model {

// An input of rows of numbers instead of words: patches of an image or video, or frames of a
// spectrogram. A product, or a convolution of several rows, turns them into rows of the hidden
// width.
struct ValueInput {
  std::int64_t values = 0;  // numbers of a row; 0: the model reads words
  std::int64_t taps = 1;    // input rows that one output row is computed from
  // The number of additional convolutions of `taps` rows. Each of them halves the number of rows.
  // GELU follows each convolution (Whisper).
  std::int64_t halvings = 0;
  bool bias = true;
  std::int64_t positions = 0;    // rows of a table of positions; 0: no table
  bool fixed_positions = false;  // the table is not trained
  std::int64_t class_rows = 0;   // trained rows before the others (ViT's class token)

  constexpr bool exists() const { return values > 0; }
  friend bool operator==(const ValueInput&, const ValueInput&) = default;
};

// The condition of a diffusion model: one vector for each sample. It is computed from the sample's
// time and, if the model has them, from a guidance, a class and a text vector. Each input except
// the class passes through two products with SiLU between them, which give a vector of the hidden
// width. The condition is the sum of these vectors.
struct Condition {
  std::int64_t time = 0;        // numbers of the time's sine and cosine; 0: no condition
  bool guidance = false;        // the condition includes a guidance, encoded like the time
  std::int64_t classes = 0;     // rows of a table of classes; 0: no classes
  std::int64_t text_width = 0;  // width of the text vector; 0: none
  // The number of vectors of the hidden width that one product computes from the condition for all
  // blocks (Wan). 0: each block computes separate vectors.
  std::int64_t shared_vectors = 0;

  constexpr bool exists() const { return time > 0; }
  friend bool operator==(const Condition&, const Condition&) = default;
};

// The rows of a text, which a frozen encoder computed before training. Each row becomes a row of
// the hidden width by one product, or by two products with GELU between them.
struct TextRows {
  std::int64_t values = 0;  // numbers of a row; 0: there is no text
  std::int64_t tokens = 0;  // rows of one sample
  std::int64_t products = 1;
  bool joined =
      false;  // text rows precede the others in all blocks; else cross-attention reads them

  constexpr bool exists() const { return values > 0; }
  friend bool operator==(const TextRows&, const TextRows&) = default;
};

// The vectors that a block or the head computes from the condition (adaLN, arXiv 2212.09748). They
// are a scale and a shift after each norm, and a factor for each branch's output.
struct Modulation {
  std::int64_t vectors = 0;  // 0: none
  // True: a product of the condition computes the vectors. False: the vectors are the sum of a
  // table's rows and the vectors that all blocks share.
  bool by_product = true;

  constexpr bool exists() const { return vectors > 0; }
  friend bool operator==(const Modulation&, const Modulation&) = default;
};

enum class Target : std::uint8_t {
  kWords,    // each word, or the masked words: cross entropy
  kClasses,  // one class per sequence: cross entropy
  kValues,   // numbers for every row: mean squared error
};

// The head's output and its loss.
struct Prediction {
  Target target = Target::kWords;
  // The number of predicted classes, or of predicted numbers per row. 0: the rows of the last block
  // are the prediction, and the head has no product.
  std::int64_t count = 0;
  bool bias = true;    // the head's product has a bias
  bool means = false;  // kClasses: from the mean of a sequence's rows instead of its first row

  friend bool operator==(const Prediction&, const Prediction&) = default;
};

// The encoder of an encoder-decoder model (T5, Whisper). It consists of the model's first blocks,
// whose sequences have a separate length. Cross-attention reads the encoder's normalized output.
struct Encoder {
  std::int64_t layers = 0;  // 0: no encoder
  std::int64_t tokens = 0;  // tokens of one sequence
  ValueInput input{};       // if absent, words of the decoder's embedding

  constexpr bool exists() const { return layers > 0; }
  friend bool operator==(const Encoder&, const Encoder&) = default;
};

}  // namespace stepcast::model

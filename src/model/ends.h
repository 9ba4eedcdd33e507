#pragma once

#include <cstdint>

// Inputs and predictions other than words, and the encoder of an encoder-decoder.
namespace stepcast::model {

// An input of rows of numbers instead of words: patches of an image or video, or frames of a
// spectrogram. A GEMM, or a convolution of several rows, converts input rows to the hidden width.
struct ValueInput {
  std::int64_t values = 0;  // numbers in a row; 0: the model reads words
  std::int64_t taps = 1;    // number of input rows from which one output row is computed
  // The number of further convolutions of `taps` rows, each of which halves the number of rows. A
  // GELU follows each convolution (Whisper).
  std::int64_t halvings = 0;
  bool bias = true;
  std::int64_t positions = 0;    // rows of a table of positions; 0: no table
  bool fixed_positions = false;  // the table of positions is not trained
  std::int64_t class_rows = 0;   // trained rows before all other rows (ViT's class token)

  constexpr bool exists() const { return values > 0; }
  friend bool operator==(const ValueInput&, const ValueInput&) = default;
};

// The condition of a diffusion model: one vector of the hidden size per sample. The vector is the
// sum of vectors computed from the sample's time and, in some models, from a guidance value, a
// class and a text vector. Each input except the class passes through two linear layers with a SiLU
// between them.
struct Condition {
  std::int64_t time = 0;        // sines and cosines that encode the time; 0: no condition
  bool guidance = false;        // the condition includes a guidance value, encoded like the time
  std::int64_t classes = 0;     // rows of a table of classes; 0: no classes
  std::int64_t text_width = 0;  // width of the text vector; 0: no text vector
  // The number of vectors of the hidden size that one GEMM computes from the condition for all
  // blocks (Wan). 0: each block computes its own vectors.
  std::int64_t shared_vectors = 0;

  constexpr bool exists() const { return time > 0; }
  friend bool operator==(const Condition&, const Condition&) = default;
};

// The rows of a text, computed by a frozen encoder before training. One linear layer, or two with a
// GELU between them, converts each row to the hidden size.
struct TextRows {
  std::int64_t values = 0;  // numbers in a row; 0: there is no text
  std::int64_t tokens = 0;  // rows of one sample
  std::int64_t products = 1;
  bool joined =
      false;  // true: rows precede all other rows in all blocks; false: cross-attention reads them

  constexpr bool exists() const { return values > 0; }
  friend bool operator==(const TextRows&, const TextRows&) = default;
};

// The vectors that a block or the head computes from the condition (adaLN, arXiv 2212.09748). These
// vectors are a scale and a shift after each norm, and a factor for each output of attention or of
// the feed-forward layer.
struct Modulation {
  std::int64_t vectors = 0;  // 0: none
  // True: a linear layer computes the vectors from the condition. False: the vectors are the sum of
  // a table's rows and the vectors that all blocks share.
  bool by_product = true;

  constexpr bool exists() const { return vectors > 0; }
  friend bool operator==(const Modulation&, const Modulation&) = default;
};

enum class Target : std::uint8_t {
  kWords,    // every word or every masked word; the loss is the cross entropy
  kClasses,  // one class per sequence; the loss is the cross entropy
  kValues,   // numbers for every row; the loss is the mean squared error
};

// The head's output and its loss.
struct Prediction {
  Target target = Target::kWords;
  // The number of predicted classes, or of predicted numbers per row. 0: the head has no linear
  // layer and predicts the rows of the last block.
  std::int64_t count = 0;
  bool bias = true;    // the head's linear layer has a bias
  bool means = false;  // kClasses: the head reads the mean of a sequence's rows instead of the
                       // first row

  friend bool operator==(const Prediction&, const Prediction&) = default;
};

// The encoder of an encoder-decoder model (T5, Whisper): the model's first blocks. The sequences of
// encoder and decoder have different lengths. Cross-attention reads the encoder's normalized
// output.
struct Encoder {
  std::int64_t layers = 0;  // 0: no encoder
  std::int64_t tokens = 0;  // tokens of one sequence
  ValueInput input{};       // if absent, the encoder reads words through the decoder's embedding

  constexpr bool exists() const { return layers > 0; }
  friend bool operator==(const Encoder&, const Encoder&) = default;
};

}  // namespace stepcast::model

#pragma once

#include <cstdint>

// Inputs and predictions of a model other than words, and the encoder that a decoder's blocks read.
namespace stepcast::model {

// Rows of numbers instead of words: patches of an image or video, or frames of a spectrogram. A
// product, or a convolution of several rows, turns them into rows of the hidden width.
struct ValueInput {
  std::int64_t values = 0;  // numbers of a row; 0: the model reads words
  std::int64_t taps = 1;    // input rows that one output row is computed from
  // Further convolutions of `taps` rows, each of which leaves every second row. GELU follows each
  // convolution (Whisper).
  std::int64_t halvings = 0;
  bool bias = true;
  std::int64_t positions = 0;    // rows of a table of positions; 0: no table
  bool fixed_positions = false;  // the table is not trained
  std::int64_t class_rows = 0;   // trained rows before the others (ViT's class token)

  constexpr bool exists() const { return values > 0; }
  friend bool operator==(const ValueInput&, const ValueInput&) = default;
};

// The condition of a diffusion model: a vector for each sample, made of its time and, if they
// exist, a guidance, a class and a vector of its text. Two products with SiLU turn each of them,
// but the class, into a vector of the hidden width, and these are added up.
struct Condition {
  std::int64_t time = 0;        // numbers of the time's sine and cosine; 0: no condition
  bool guidance = false;        // likewise a guidance
  std::int64_t classes = 0;     // rows of a table of classes; 0: none
  std::int64_t text_width = 0;  // of the vector of the text; 0: none
  // Vectors of the hidden width that one product makes of the condition for all blocks (Wan); 0:
  // each block makes its own.
  std::int64_t shared_vectors = 0;

  constexpr bool exists() const { return time > 0; }
  friend bool operator==(const Condition&, const Condition&) = default;
};

// Rows of a text that a frozen encoder has made before. Products turn them into rows of the hidden
// width: one, or two with GELU between them.
struct TextRows {
  std::int64_t values = 0;  // numbers of a row; 0: there is no text
  std::int64_t tokens = 0;  // rows of one sample
  std::int64_t products = 1;
  bool joined =
      false;  // they stand before the other rows in all blocks; else cross-attention reads

  constexpr bool exists() const { return values > 0; }
  friend bool operator==(const TextRows&, const TextRows&) = default;
};

// Vectors that the condition makes for a block or head (adaLN, arXiv 2212.09748): a scale and a
// shift after each norm, and a factor of each branch's output.
struct Modulation {
  std::int64_t vectors = 0;  // 0: none
  // A product of the condition makes them; else they are a table's, added to the shared ones.
  bool by_product = true;

  constexpr bool exists() const { return vectors > 0; }
  friend bool operator==(const Modulation&, const Modulation&) = default;
};

enum class Target : std::uint8_t {
  kWords,    // of every token, or of the masked ones: cross entropy
  kClasses,  // one of each sequence: cross entropy
  kValues,   // numbers of every row: mean squared error
};

// The head's output and loss.
struct Prediction {
  Target target = Target::kWords;
  // Classes, or numbers of a row. 0: the rows of the last block themselves, without a product.
  std::int64_t count = 0;
  bool bias = true;    // the head's product has a bias
  bool means = false;  // kClasses: from the mean of a sequence's rows instead of its first row

  friend bool operator==(const Prediction&, const Prediction&) = default;
};

// The encoder of an encoder-decoder model (T5, Whisper): the first blocks of the model, with
// sequences of their own length. Its normalized output is the context of cross-attention.
struct Encoder {
  std::int64_t layers = 0;  // 0: no encoder
  std::int64_t tokens = 0;  // of one sequence
  ValueInput input{};       // without it, words of the decoder's embedding

  constexpr bool exists() const { return layers > 0; }
  friend bool operator==(const Encoder&, const Encoder&) = default;
};

}  // namespace stepcast::model

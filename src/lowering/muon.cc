#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "src/lowering/update.h"
#include "src/plan/framework_style.h"
#include "src/plan/optimizer_states.h"

namespace stepcast::lowering {
namespace {

using plan::MuonKernels;
using program::BufferUse;
using program::kNone;

constexpr int kSteps = 5;
constexpr std::size_t kConcurrentBatches = 3;

// Matrices of one shape that are orthogonalized together. This rank updates `elements` of their
// numbers: some rows, or all.
struct Matrices {
  std::int64_t count = 1, rows = 0, columns = 0;
  bool exchanged = false;

  std::int64_t elements() const { return count * rows * columns; }
  std::int64_t shorter() const { return std::min(rows, columns); }
  std::int64_t longer() const { return std::max(rows, columns); }
  Bytes size(std::int64_t each) const { return Bytes(elements() * each); }
  Bytes square(std::int64_t each) const { return Bytes(count * shorter() * shorter() * each); }
  friend bool operator==(const Matrices&, const Matrices&) = default;
};

class Muon {
 public:
  Muon(const TrainingStep& step, const plan::Training& training, const MatrixExchange& exchange,
       UpdateLoop& loop)
      : kernels_(plan::StyleOf(step.plan().data_parallel.framework).muon),
        exchange_(exchange),
        loop_(loop),
        masters_(plan::KeepsMasterWeights(training)),
        gradient_(masters_ ? 4 : SizeOf(training.gradient_dtype)),
        momentum_(SizeOf(training.optimizer_state_dtype)),
        updated_(SizeOf(plan::UpdatedType(training))),
        parameter_(SizeOf(training.parameter_dtype)),
        product_(kernels_ == MuonKernels::kMegatron ? 4 : 2) {}

  // Writes the update of one whole tensor. Except in Dion's batches, each of the tensor's matrices
  // is updated by itself.
  void WriteWhole(const Matrices& tensor) {
    if (kernels_ == MuonKernels::kDion) {
      Batch batch{.matrices = tensor};
      while (Advance(batch)) {
      }
      return;
    }
    const Matrices each{.count = 1, .rows = tensor.rows, .columns = tensor.columns};
    for (std::int64_t matrix = 0; matrix < tensor.count; ++matrix) WriteMatrix(each);
  }

  // Writes the update of batches of matrices whose rows are divided among ranks.
  void WriteExchanged(const std::vector<Matrices>& batches) {
    std::vector<Batch> running;
    std::size_t next = 0;
    while (next < batches.size() || !running.empty()) {
      std::vector<Batch> still;
      if (next < batches.size() && running.size() < kConcurrentBatches) {
        Batch begun{.matrices = batches[next++]};
        Advance(begun);
        still.push_back(begun);
      }
      for (Batch& batch : running) {
        if (Advance(batch)) still.push_back(batch);
      }
      running = std::move(still);
    }
  }

 private:
  // A batch whose update is in progress.
  struct Batch {
    Matrices matrices;
    int stage = 0;
    Index update = kNone, other = kNone;  // temporaries
    Index exchanged = kNone;              // event
  };

  void Run(const char* name, Bytes read, Bytes written, std::initializer_list<Index> temporaries) {
    loop_.Run(name, DataType::kFp32, read, written, temporaries);
  }

  // The update by torch.optim.Muon or emerging_optimizers.
  void WriteMatrix(const Matrices& matrix) {
    const std::int64_t elements = matrix.elements();
    const auto size = [&](std::int64_t each) { return Bytes(elements * each); };
    Run("lerp(momentum)", size(momentum_ + gradient_), size(momentum_), {});
    const Index update = loop_.Make(size(gradient_));
    Run("lerp(nesterov)", size(gradient_ + momentum_), size(gradient_), {update});
    const bool torch = kernels_ == MuonKernels::kTorch;
    Index x = update;
    if (torch && gradient_ > 2) {
      x = loop_.Make(size(product_));
      Run("cast(update)", size(gradient_), size(product_), {update, x});
    }
    Run("norm(update)", size(product_), Bytes(), {x});
    if (torch) {
      Run("div(norm)", size(product_), size(product_), {x});
    } else {
      x = loop_.Make(size(product_));
      Run("div(norm)", size(product_), size(product_), {update, x});
    }
    Index result = Orthogonalise(matrix, x, x != update);
    if (!torch) {
      const Index scaled = loop_.Make(size(product_));
      Run("mul(scale)", size(product_), size(product_), {result, scaled});
      loop_.Free(std::exchange(result, scaled));
    }
    Run("mul(weight_decay)", size(updated_), size(updated_), {});
    Run("add(parameter)", size(updated_ + product_), size(updated_), {result});
    loop_.Free(result);
    loop_.Free(update);
    if (masters_) Run("cast(parameter)", size(4), size(parameter_), {});
  }

  // Continues to the batch's next wait. Returns false when the batch is done.
  bool Advance(Batch& batch) {
    const Matrices& matrices = batch.matrices;
    const std::int64_t elements = matrices.elements();
    const auto size = [&](std::int64_t each) { return Bytes(elements * each); };
    switch (batch.stage++) {
      case 0:
        batch.update = loop_.Make(size(2));
        Run("update_momentum", size(gradient_ + momentum_), size(momentum_ + 2), {batch.update});
        if (!matrices.exchanged) return true;
        batch.other = loop_.Make(size(2));
        batch.exchanged = loop_.Exchange(exchange_.stream, exchange_.communicator, size(2),
                                         batch.update, batch.other);
        return true;
      case 1: {
        Index x = batch.update;
        if (matrices.exchanged) {
          loop_.Await(batch.exchanged);
          x = loop_.Make(size(2));
          Run("cat(rows)", size(2), size(2), {batch.other, x});
          loop_.Free(batch.other);
        }
        Run("norm(update)", size(2), Bytes(), {x});
        Run("div(norm)", size(2), size(2), {x});
        x = Orthogonalise(matrices, x, true);
        if (!matrices.exchanged) {
          batch.update = x;
          return true;
        }
        batch.other = x;
        batch.exchanged =
            loop_.Exchange(exchange_.stream, exchange_.communicator, size(2), x, batch.update);
        return true;
      }
      default:
        if (matrices.exchanged) {
          loop_.Await(batch.exchanged);
          loop_.Free(batch.other);
        }
        Run("update_parameters", size(updated_ + 2), size(updated_), {batch.update});
        loop_.Free(batch.update);
        return false;
    }
  }

  // Orthogonalises the temporary `x` and returns the result. Frees `x` if it `owns` it.
  Index Orthogonalise(const Matrices& matrices, Index x, bool owns) {
    const std::int64_t batch = matrices.count, m = matrices.shorter(), n = matrices.longer();
    const Bytes square = matrices.square(product_), whole = matrices.size(product_);
    const bool compiled = kernels_ == MuonKernels::kDion;
    for (int step = 0; step < kSteps; ++step) {
      const Index gram = loop_.Make(square);
      loop_.Multiply(
          {.name = "newton_schulz.gram", .batch = batch, .m = m, .n = m, .k = n, .size = product_},
          {x, gram});
      const Index polynomial = loop_.Make(square);
      if (!compiled) Run("copy(gram)", square, square, {gram, polynomial});
      loop_.Multiply({.name = "newton_schulz.square",
                      .batch = batch,
                      .m = m,
                      .n = m,
                      .k = m,
                      .size = product_,
                      .adds = !compiled,
                      .layout = ProductLayout::kInputGradient},
                     {gram, polynomial});
      if (compiled) Run("add(gram)", square + square, square, {gram, polynomial});
      const Index next = loop_.Make(whole);
      if (!compiled) Run("copy(x)", whole, whole, {x, next});
      loop_.Multiply({.name = "newton_schulz.product",
                      .batch = batch,
                      .m = m,
                      .n = n,
                      .k = m,
                      .size = product_,
                      .adds = !compiled,
                      .layout = ProductLayout::kInputGradient},
                     {polynomial, x, next});
      if (compiled) Run("add(x)", whole + whole, whole, {x, next});
      loop_.Free(polynomial);
      loop_.Free(gram);
      if (step > 0 || owns) loop_.Free(x);
      x = next;
    }
    return x;
  }

  const MuonKernels kernels_;
  const MatrixExchange& exchange_;
  UpdateLoop& loop_;
  const bool masters_;
  // Bytes of a number in gradients, momentum, updated values, parameters, and operands of products.
  const std::int64_t gradient_, momentum_, updated_, parameter_, product_;
};

// Matrices of which each rank has some rows, in batches of as many of one shape as there are ranks.
std::vector<Matrices> BatchesOf(const std::vector<Matrices>& exchanged, std::int64_t ranks) {
  std::vector<std::pair<Matrices, std::int64_t>> shapes;
  for (const Matrices& matrix : exchanged) {
    const auto same = std::find_if(shapes.begin(), shapes.end(),
                                   [&](const auto& shape) { return shape.first == matrix; });
    if (same == shapes.end()) {
      shapes.emplace_back(matrix, 1);
    } else {
      ++same->second;
    }
  }
  std::vector<Matrices> batches;
  for (const auto& [matrix, count] : shapes) {
    batches.insert(batches.end(), static_cast<std::size_t>((count + ranks - 1) / ranks), matrix);
  }
  return batches;
}

}  // namespace

UpdatedTensors WriteMuonUpdate(TrainingStep& step, const plan::Training& training,
                               const UpdatedTensors& updated, std::span<const BufferUse> uses) {
  const bool exchanges = updated.exchange.communicator != kNone;
  std::vector<Matrices> whole, exchanged;
  UpdatedTensors others;
  for (const UpdatedTensor& each : updated.tensors) {
    const plan::OptimizerTensor tensor =
        plan::OptimizerTensorOf(step.plan(), step.model(), each.tensor, each.elements);
    if (!plan::TakesMuon(tensor)) {
      others.tensors.push_back(each);
      others.elements += each.elements;
      continue;
    }
    const model::Tensor& parameter = step.model().tensors[static_cast<std::size_t>(each.tensor)];
    if (exchanges && parameter.shape.size() == 2) {
      exchanged.push_back(
          {.rows = parameter.shape[0], .columns = parameter.shape[1], .exchanged = true});
    } else {
      whole.push_back({.count = tensor.matrices, .rows = tensor.rows, .columns = tensor.columns});
    }
  }
  UpdateLoop loop(step, updated.stream, uses, {});
  Muon muon(step, training, updated.exchange, loop);
  loop.Write([&] {
    muon.WriteExchanged(BatchesOf(exchanged, updated.exchange.ranks));
    for (const Matrices& tensor : whole) muon.WriteWhole(tensor);
  });
  return others;
}

}  // namespace stepcast::lowering

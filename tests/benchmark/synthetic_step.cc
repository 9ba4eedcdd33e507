#include "tests/benchmark/synthetic_step.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/examples/test_program.h"

namespace stepcast::benchmark_programs {
namespace {

using program::BufferUse;
using program::Category;
using program::Index;
using program::TestProgram;

constexpr int kCompute = 0;
constexpr int kGather = 1;
constexpr int kScatter = 2;

cost::Demand Demand(Time work, double compute, double memory, double network) {
  cost::Demand demand;
  demand.latency = Microseconds(2);
  demand.work = work;
  demand.share[static_cast<std::size_t>(cost::Resource::kCompute)] = compute;
  demand.share[static_cast<std::size_t>(cost::Resource::kMemory)] = memory;
  demand.share[static_cast<std::size_t>(cost::Resource::kNetwork)] = network;
  return demand;
}

class Writer {
 public:
  Writer(int layers, int kernels_per_layer)
      : layers_(layers), kernels_(kernels_per_layer), test_(3) {
    kernel_ = test_.AddKernel("kernel");
    prices_.kernels.push_back(Demand(Microseconds(40), 0.9, 0.5, 0));
    const Index data = test_.AddCommunicator("data", {0, 1, 2, 3, 4, 5, 6, 7});
    gather_ = test_.AddCollective(CollectiveKind::kAllGather, data, MiB(400));
    scatter_ = test_.AddCollective(CollectiveKind::kReduceScatter, data, MiB(400));
    for (int i = 0; i < 2; ++i) {
      cost::CollectivePrice price;
      price.demand = Demand(Milliseconds(1), 0.15, 0.2, 1);
      prices_.collectives.push_back(price);
    }
    prices_.issue_kernel = Microseconds(5);
    prices_.issue_collective = Microseconds(20);
    for (int l = 0; l < layers_; ++l) {
      const std::string layer = "layer" + std::to_string(l);
      shard_.push_back(test_.AddBuffer(layer + ".shard", MiB(50), Category::kParameter));
      full_.push_back(test_.AddBuffer(layer + ".full", MiB(400), Category::kCommunication));
      gradient_.push_back(test_.AddBuffer(layer + ".gradient", MiB(400), Category::kGradient));
      gathered_.push_back(test_.AddEvent(layer + ".gathered"));
      used_.push_back(test_.AddEvent(layer + ".used"));
      reduced_.push_back(test_.AddEvent(layer + ".reduced"));
      std::vector<Index> activations;
      for (int k = 0; k < kernels_; ++k) {
        activations.push_back(test_.AddBuffer(layer + ".activation", MiB(64)));
      }
      activations_.push_back(activations);
    }
  }

  PricedProgram Write() {
    for (const Index shard : shard_) test_.Allocate(kCompute, shard);
    test_.Step();
    Gather(0);
    for (int l = 0; l < layers_; ++l) {
      if (l + 1 < layers_) Gather(l + 1);
      Forward(l);
    }
    Gather(layers_ - 1);
    for (int l = layers_ - 1; l >= 0; --l) {
      if (l > 0) Gather(l - 1);
      Backward(l);
    }
    // The optimizer: one kernel per layer.
    for (const Index event : reduced_) test_.Wait(kCompute, event);
    for (const Index shard : shard_) test_.Run(kCompute, kernel_, {test_.Write(shard)});
    const Index updated = test_.AddEvent("updated");
    test_.Record(kCompute, updated).Wait(kGather, updated).Wait(kScatter, updated);
    return {test_.program(), prices_};
  }

 private:
  void Gather(int l) {
    const auto i = static_cast<std::size_t>(l);
    test_.Allocate(kGather, full_[i]);
    test_.Communicate(kGather, gather_, {test_.Read(shard_[i]), test_.Write(full_[i])});
    test_.Record(kGather, gathered_[i]);
  }

  void Forward(int l) {
    const auto i = static_cast<std::size_t>(l);
    test_.Wait(kCompute, gathered_[i]);
    for (const Index activation : activations_[i]) {
      test_.Allocate(kCompute, activation);
      test_.Run(kCompute, kernel_, {test_.Read(full_[i]), test_.Write(activation)});
    }
    GiveBack(i);
  }

  void Backward(int l) {
    const auto i = static_cast<std::size_t>(l);
    test_.Wait(kCompute, gathered_[i]).Allocate(kCompute, gradient_[i]);
    for (auto activation = activations_[i].rbegin(); activation != activations_[i].rend();
         ++activation) {
      test_.Run(kCompute, kernel_, {test_.Read(full_[i]), test_.Read(*activation)});
      test_.Run(kCompute, kernel_, {test_.Read(*activation), test_.Write(gradient_[i])});
      test_.Release(*activation);
    }
    GiveBack(i);
    test_.Wait(kScatter, used_[i]);
    test_.Communicate(kScatter, scatter_, {test_.Write(gradient_[i])});
    test_.Record(kScatter, reduced_[i]);
    test_.RecordStream(kScatter, gradient_[i]).Release(gradient_[i]);
  }

  void GiveBack(std::size_t i) {
    test_.Record(kCompute, used_[i]);
    test_.RecordStream(kCompute, full_[i]).Release(full_[i]);
  }

  int layers_;
  int kernels_;
  TestProgram test_;
  cost::Prices prices_;
  Index kernel_ = 0, gather_ = 0, scatter_ = 0;
  std::vector<Index> shard_, full_, gradient_, gathered_, used_, reduced_;
  std::vector<std::vector<Index>> activations_;
};

}  // namespace

PricedProgram ShardedStep(int layers, int kernels_per_layer) {
  return Writer(layers, kernels_per_layer).Write();
}

PricedProgram PipelineStage(int stage, int stages, int micro_batches, int kernels) {
  constexpr int kFromBefore = 1, kToNext = 2, kFromNext = 3, kToBefore = 4;
  TestProgram test(5);
  cost::Prices prices;
  const Index kernel = test.AddKernel("kernel");
  // Stages differ, like real stages with an embedding or a head.
  prices.kernels.push_back(Demand(Microseconds(40 + stage), 0.9, 0.5, 0));
  prices.issue_kernel = Microseconds(5);
  prices.issue_collective = Microseconds(20);
  const auto add_link = [&](const std::string& name, int first) {
    const Index communicator = test.AddCommunicator(name, {first, first + 1});
    cost::CollectivePrice price;
    price.demand = Demand(Microseconds(300), 0.05, 0.1, 1);
    prices.collectives.push_back(price);
    return test.AddCollective(CollectiveKind::kBroadcast, communicator, MiB(64));
  };
  const bool first = stage == 0, last = stage == stages - 1;
  Index forward_in = 0, backward_out = 0, forward_out = 0, backward_in = 0;
  if (!first) {
    forward_in = add_link("forward " + std::to_string(stage - 1), stage - 1);
    backward_out = add_link("backward " + std::to_string(stage - 1), stage - 1);
  }
  if (!last) {
    forward_out = add_link("forward " + std::to_string(stage), stage);
    backward_in = add_link("backward " + std::to_string(stage), stage);
  }
  const Index received = test.AddEvent("received"), computed = test.AddEvent("computed");
  const auto receive = [&](int stream, Index collective) {
    test.Communicate(stream, collective).Record(stream, received).Wait(kCompute, received);
  };
  const auto send = [&](int stream, Index collective) {
    test.Record(kCompute, computed).Wait(stream, computed).Communicate(stream, collective);
  };
  const auto forward = [&] {
    if (!first) receive(kFromBefore, forward_in);
    for (int k = 0; k < kernels; ++k) test.Run(kCompute, kernel);
    if (!last) send(kToNext, forward_out);
  };
  const auto backward = [&] {
    if (!last) receive(kFromNext, backward_in);
    for (int k = 0; k < 2 * kernels; ++k) test.Run(kCompute, kernel);
    if (!first) send(kToBefore, backward_out);
  };
  test.Step();
  const int ahead = std::min(stages - stage - 1, micro_batches);
  for (int m = 0; m < ahead; ++m) forward();
  for (int m = ahead; m < micro_batches; ++m) {
    forward();
    backward();
  }
  for (int m = 0; m < ahead; ++m) backward();
  return {test.program(), prices};
}

}  // namespace stepcast::benchmark_programs

#!/bin/bash
# A recipe of Megatron-Bridge with settings of its own behind it.
torchrun --nproc_per_node 8 --nnodes 4 scripts/training/run_recipe.py \
  --recipe llama3_70b_pretrain_config \
  train.global_batch_size=64 model.context_parallel_size=1 model.virtual_pipeline_model_parallel_size=10

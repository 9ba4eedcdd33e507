#!/bin/bash
# Settings of NeMo's configuration on the command line, as Hydra takes them.
NODES=2
torchrun --nproc_per_node 8 --nnodes $NODES examples/nlp/language_modeling/megatron_gpt_pretraining.py \
  trainer.devices=8 trainer.num_nodes=$NODES trainer.precision=bf16-mixed trainer.gradient_clip_val=1.0 \
  model.mcore_gpt=true model.micro_batch_size=2 model.global_batch_size=256 \
  model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=1 model.sequence_parallel=true \
  model.encoder_seq_length=4096 model.max_position_embeddings=4096 model.num_layers=32 model.hidden_size=4096 \
  model.ffn_hidden_size=11008 model.num_attention_heads=32 model.normalization=rmsnorm model.bias=false \
  model.activation=fast-swiglu model.position_embedding_type=rope model.share_embeddings_and_output_weights=false \
  model.hidden_dropout=0.0 model.attention_dropout=0.0 +model.vocab_size=32000 \
  model.optim.name=mcore_distributed_optim ++model.optim.overlap_grad_sync=true

# A script that calls a recipe of Megatron-Bridge, as the getting-started example of
# NVIDIA-NeMo/Megatron-Bridge at 924366d494c3 does.
from megatron.bridge.recipes.llama import llama3_8b_pretrain_config
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.pretrain import pretrain

TOKENS: int = 4 * 1024


def main(long: bool) -> None:
    cfg = llama3_8b_pretrain_config()
    cfg.train.global_batch_size = 128
    cfg.model.seq_length = TOKENS
    cfg.model.context_parallel_size = 1
    cfg.optimizer.use_precision_aware_optimizer = True
    if long:
        cfg.model.context_parallel_size = 4
    pretrain(cfg, forward_step)


if __name__ == "__main__":
    main(False)

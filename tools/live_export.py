"""The trained pair as ONNX files for the browser: written out with torch operations, exported, stored in half
precision where that is exact, and compared with transformers on texts of several lengths.

    python tools/live_export.py FOLDER"""
import sys
from pathlib import Path
import numpy as np, torch, torch.nn.functional as F
from torch import Tensor, nn

class Written(nn.Module):
    "GPT-2 as a function of the new ids and of the keys and values so far, which lie position by position"
    def __init__(self, model):
        super().__init__()
        self.model, self.heads = model.transformer, model.config.n_head

    def attend(self, block, x:Tensor, past:Tensor, seen:Tensor): # x [m, D], past [P, 2, heads, d], seen [m, P + m]
        "One layer's attention, and the new keys and values, [m, 2, heads, d]"
        qkv = block.attn.c_attn(x).view(x.shape[0], 3, self.heads, -1)
        new = qkv[:, 1:]
        q, (k, v) = qkv[:, 0].transpose(0, 1), torch.cat([past, new]).permute(1, 2, 0, 3).unbind(0)
        scores = q @ k.transpose(1, 2) / q.shape[-1]**.5
        mixed = scores.masked_fill(~seen, -1e9).softmax(-1) @ v
        return block.attn.c_proj(mixed.transpose(0, 1).reshape(x.shape[0], -1)), new

    def forward(self, ids:Tensor, past:Tensor): # ids [m], past [P, layers, 2, heads, d]
        "Logits [m, V], and the keys and values of the new ids, [m, layers, 2, heads, d]"
        P, m = past.shape[0], ids.shape[0]
        at = torch.arange(P + m)
        x, present = self.model.wte(ids) + self.model.wpe(at[P:]), []
        for block, kv in zip(self.model.h, past.unbind(1)):
            y, new = self.attend(block, block.ln_1(x), kv, at[None] <= at[P:, None])
            x = x + y
            x = x + block.mlp(block.ln_2(x))
            present.append(new)
        return F.linear(self.model.ln_f(x), self.model.wte.weight), torch.stack(present, 1)

def past(model, P:int)->Tensor: # [P, layers, 2, heads, d]
    "Room for the keys and values of `P` tokens"
    c = model.config
    return torch.zeros(P, c.n_layer, 2, c.n_head, c.n_embd//c.n_head)

@torch.no_grad()
def exported(model): # an ONNX model
    "The graph, for any number of new ids on any past that the context has room for"
    n = model.config.n_positions
    shapes = dict(ids={0: torch.export.Dim('m', min=1, max=n)}, past={0: torch.export.Dim('P', min=0, max=n - 1)})
    return torch.onnx.export(Written(model).eval(), (torch.tensor([1, 2, 3, 4]), past(model, 3)), input_names=['ids', 'past'],
                             output_names=['logits', 'new'], dynamic_shapes=shapes, dynamo=True,
                             verbose=False).model_proto

def halved(proto):
    "Weights that half precision holds exactly are stored in it, and widened when they are read: half the bytes"
    from onnx import TensorProto, helper, numpy_helper
    casts = []
    for w in proto.graph.initializer:
        if w.data_type != TensorProto.FLOAT: continue
        wide = numpy_helper.to_array(w)
        with np.errstate(over='ignore'): half = wide.astype(np.float16)
        if wide.size < 64 or not np.array_equal(half.astype(np.float32), wide): continue
        name = w.name
        w.CopyFrom(numpy_helper.from_array(half, f'{name}_half'))
        casts.append(helper.make_node('Cast', [f'{name}_half'], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return proto

def difference(model, proto, ids:Tensor, cuts:tuple)->float: # where each chunk ends
    "The largest difference of logits from transformers', the text read in chunks on top of each other"
    from onnx.reference import ReferenceEvaluator
    run, seen, rows, at = ReferenceEvaluator(proto), past(model, 0).numpy(), [], 0
    for end in (*cuts, len(ids)):
        logits, new = run.run(None, dict(ids=ids[at:end].numpy(), past=seen))
        seen = np.concatenate([seen, new])
        rows.append(torch.tensor(logits))
        at = end
    with torch.no_grad(): return float((torch.cat(rows) - model(ids[None]).logits[0]).abs().max())

TEXTS = {1: (), 2: (1,), 7: (3, 4), 64: (5, 6, 40), 200: (64, 69)} # length -> where it is cut

def checked(model, proto):
    "`proto` itself, when it computes what the model computes"
    for length, cuts in TEXTS.items():
        ids = torch.randint(model.config.vocab_size, (length,), generator=torch.Generator().manual_seed(length))
        far = difference(model, proto, ids, cuts)
        if not far < 1e-4: raise SystemExit(f'a text of {length} tokens: the exported logits differ by {far:.2g}')
    return proto

def export(folder:Path)->None:
    "target.onnx and draft.onnx in `folder`"
    from specdec.zoo import load_pair
    pair = load_pair(device='cpu')
    for name in ('target', 'draft'):
        model = getattr(pair, name)
        (folder/f'{name}.onnx').write_bytes(checked(model, halved(exported(model))).SerializeToString())

if __name__ == '__main__':
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    export(folder)
    print({p.name: p.stat().st_size for p in sorted(folder.glob('*.onnx'))})

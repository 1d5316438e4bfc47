"""Convert a trained model to another attention variant: the cost in each layer, and the healing that follows.

result = retrofit("smollm2", request_of(variants=("tied-kv", "window:256")))
print(result.to_dict()["variants"][0]["costs"])

request      the request: variants, texts, layers and healing
texts        the text in the tokens of the model: for fitting, for evaluation, for healing
conversion   weights for another attention variant, without training
costs        the loss with one layer converted, and the layers for a budget
healing      layer-wise distillation, then finetuning, over seeds
gains        parameters, cache and speed
folder       the files of a retrofit, and its progress
forecast     the time and the memory that a request takes
study        a complete retrofit in one folder, from which the same request resumes
result       the results
reading      a result read from its folder
page         one offline page, and the tables of the terminal
saving       retrofitted models as folders for Transformers
"""

from attnlab.retrofit.request import RetrofitRequest, request_of
from attnlab.retrofit.result import RetrofitResult, VariantResult
from attnlab.retrofit.saving import save_for_transformers, save_retrofitted
from attnlab.retrofit.study import retrofit

__all__ = [
    "RetrofitRequest",
    "RetrofitResult",
    "VariantResult",
    "request_of",
    "retrofit",
    "save_for_transformers",
    "save_retrofitted",
]

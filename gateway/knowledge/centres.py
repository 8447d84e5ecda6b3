"""What all vectors of the local model have in common, passages' and questions'.

The model puts all texts into a narrow cone, where whatever is compared looks alike: unlike texts have a cosine of 0.8,
like ones of 0.85. Most of what is common taken out of each, there can be a floor, and the right passage comes first more
often. The figures are means over twenty neutral sentences and twenty neutral questions, none from the bench's documents
(`tests/bench/knowledge/neutral.py` makes them).
"""

from __future__ import annotations

import binascii

import numpy as np
import numpy.typing as npt

_TAKEN_OUT = 0.9
"""How much of it: with all of it, vectors close to the centre would point anywhere."""


def without_common(vector: npt.NDArray[np.float32], *, question: bool) -> npt.NDArray[np.float32]:
    """Take it out of one of the model's vectors."""
    return vector - _TAKEN_OUT * (QUESTIONS if question else PASSAGES)


def _unpacked(halves: str) -> npt.NDArray[np.float32]:
    return np.frombuffer(binascii.a2b_base64(halves), "<f2").astype(np.float32)


PASSAGES = _unpacked(
    "HisspSul0az5LL+jPqK2JJEs3CjrKnQgEi6po/Oo/yieK8Cmhqg3rMYkLiT1qV8ozSqoKhSlUiQ4KKytLat4rM0p9qvIKdwoEqgS"
    "rDUpj6zBqQsmKyRALDUsWSpdrGcpy6m+oQmoOiq6KaMs0yiqpv+nM6ylqu8n0CqHJWgmZiikLV4rLynaKSGjVKkoq04rJ57CqtWa"
    "JSUHK8+rminFq+ar7qlJqYUni6zXKe8p3KvJKSmdXSzSKmSoa6qIq/WoOakuK2MsXKnhJ1GmSyXzrCaqIyn5KLSrBi3Aq+Wp5Siy"
    "I+opRawVpyChz6kLJ86rJSuHqNWpXaytqfKowylXKYUcRB+JJVUnsCLuKnUl3C2+qaOln6RjqEWq1CrbqSMosCiVKVAt56TRKiSs"
    "XSWXqkQq8CQLKwCnba6lqzwrzSvLqp6q1qt8qByqgqntJGgsYapnohym0ylGpcgqeCL5KQKrzCppLRAp651ypjapaKzGqmKr9ao1"
    "JYSRJagLonoo7ZlErASsFiufqxQsqSi3JmAlRakHKFkmiSRJKEWsxCmfqSUslih4rLmrdCvTqUkkqSTFKjWrsCpYKwmkSSqEriSq"
    "gSlcJfCqf6s0KQunaaOMrCetQqmdpwMlLyqKJiKs3qN7pysoyaosKbyoqqctKvSmGyw5LGysIqlVq/+bSiJSK9IpBKoSKJ8kl6gz"
    "LGgpliwwKQmrNSEDq+Kpw6pUKMIoAqqjrSepvijDKy+pGqrvKkAoJCyTLKUqhaDiqI0naataqa6hNKqYLNGpJiplJ1YjFCx4pyss"
    "ap0VrI0lgCY6rngnP5z2HJUmxiqzKkEmeqoLqEspnCufKOQoFavHqq2sWqylomKo1ihpJUSq8qnnK1iNXygHqQGpPCR/qNWkFKh3"
    "K5upSqgxKnYqHqrtKq6OEaxQJoulCKbsJhwkIq79KNgqVqf3KMapkaeZJwsofqw5p1QlgyjUKzUpwqJ5qBUkYaqQJ1krbqk2o3Sh"
    "yqrwqCkqSKhOrKgr6SpzKz0s"
)
QUESTIONS = _unpacked(
    "wStjqIysoqxiK3apYiXmJ0EpWSRRKnEhDyySpoymYykeLAapJadurNgkzCV1rAMpvylbKu2ldineKIms8qoTrNcoZqsgKtkpv6h5"
    "qhctlqvAqDcoYCjEKtAoMStCqTQqdqiXoKSmMCqAKg4sOCtrqaaqmqyAqo0jmSsLp72Pzyl9Kz4qXCgkKzKpWapeqlkooCbJqSCW"
    "5R3hJmSr2iVBrGmsj6l2qKwoNawmKw8qwKrKKOai1ysTLTWqearGqh2qqqTtKdgraKnpKJqoOibaq22mLiS0KwCpRCyCqtuppCsq"
    "KUYruKy1pCmkTqskKBCqiiwtqEmrwKlaqnqnbSXjKxEkSCgOKLgk8yUpKlcpqCthqtoaQp5Qpw6q5yqEq/wp3ihVKgQuSKFLK4Oq"
    "BCiYqDcpgilFKBulD620rIIqSytKqdOqQKspp+ipHqflJ+cqbKrcq1CocSreqtArmiS1KMypcCtPLT8oYqfDpB+rXa0zrJasJKsW"
    "KAUokqieodYoraccrEqpliaorEksLSoVJeulsarnJSEk4Sl7JpOo5ig+qyYrOinyqy6shSv1l/SkDiLUKb2r3Cr2K3ukxSiCrvao"
    "QikiKEWrn6jgKh2ptaazqkKtr6N4q3OkqCqTKDusHapsoSMo76u1KICrN6V8KpSlCykpLUSuP6rtqfyjOiqIKd8qz6sdKeslGqCG"
    "LEwo+CteKECsNxzgqP6kmaqRJlArqKh+qmWoSyqqLdep4KmAK3InACl/Lqco3Kj2pkIqMKlrqgEgFKuBLLmlFiz7JmolnSqVqQor"
    "L6NVqdyeRyVPrJYpjR4sJKgk5yvDK8gofqpNqR0lPiuvoJIptKxyqtOsd6mBpfKqMilWJcyrcKksKqkYAKAVqHWplimEqMClM6Kr"
    "LCmpPqk1KhYkeKy9J5SjO6rQKAynGax0KVsjoq2NKC4qCKmvJnuoqJ/HJTgoA6uVqc0ndSrKKI8pa6GVpgojSqqRKFwsKquxFcak"
    "wad/qmIpnKiyqU0qcyuhKEAr"
)

"""Estimators that build something dense: sklearn_jobs.py distances|onehot|svd|joblib."""

import sys

import numpy as np
from limits import allow_more

where = sys.argv[1]
MB = 1 << 20
if where == "distances":
    from sklearn.cluster import AgglomerativeClustering

    x = np.random.rand(40000, 4)
    AgglomerativeClustering(4).fit(x[:50])
    allow_more(1500 * MB)
    print(AgglomerativeClustering(4).fit_predict(x))
elif where == "kernel":
    from sklearn.gaussian_process import GaussianProcessRegressor

    x = np.random.rand(30000, 4)
    GaussianProcessRegressor().fit(x[:50], x[:50, 0])
    allow_more(1500 * MB)
    GaussianProcessRegressor().fit(x, x[:, 0])
elif where == "onehot":
    from sklearn.preprocessing import OneHotEncoder

    x = np.arange(50000).reshape(-1, 1)
    OneHotEncoder(sparse_output=False).fit_transform(x[:50])
    allow_more(1500 * MB)
    print(OneHotEncoder(sparse_output=False).fit_transform(x).shape)
elif where == "toarray":
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [f"word{i} word{i + 1} word{i * 7}" for i in range(40000)]
    matrix = TfidfVectorizer().fit_transform(texts)
    print("sparse", matrix.shape, matrix.nnz)
    allow_more(1500 * MB)
    print(matrix.toarray().shape)
elif where == "joblib":
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import GridSearchCV
    from sklearn_killed import Hungry

    x, y = np.random.rand(200, 4), np.arange(200) % 2
    print(RandomForestClassifier(5).fit(x, y).score(x, y))
    GridSearchCV(Hungry(), {"size": [1, 2, 3, 4]}, n_jobs=2, cv=2).fit(x, y)

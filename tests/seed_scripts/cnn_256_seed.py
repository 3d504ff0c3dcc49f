import tensorflow as tf
import numpy as np

# Create a dummy dataset (Replace with your actual dataset)
image_shape = (256, 256, 3) # Large images
num_images = 1000
images = np.random.rand(num_images, *image_shape).astype(np.float32)
labels = np.random.randint(0, 2, num_images)

dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(128)

# Create a dummy CNN Model (Replace with your model)
model = tf.keras.Sequential([
    tf.keras.layers.Conv2D(32, (3, 3), activation='relu', input_shape=image_shape),
    tf.keras.layers.MaxPooling2D((2, 2)),
    tf.keras.layers.Conv2D(64, (3, 3), activation='relu'),
    tf.keras.layers.MaxPooling2D((2, 2)),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(1, activation='sigmoid')
])

# Compile the model
model.compile(optimizer='adam', loss='binary_crossentropy', metrics=['accuracy'])

# Attempt to train the model (This is likely to result in ResourceExhaustedError)
try:
  model.fit(dataset, epochs=5)
except tf.errors.ResourceExhaustedError as e:
  print(f"Encountered Resource Exhausted Error: {e}")

import stand_in

stand_in.train()
stand_in.train("project/train.py")
stand_in.train("train.sh", "#!/bin/sh\nexec python train.py\n")

import stand_in

stand_in.train()
